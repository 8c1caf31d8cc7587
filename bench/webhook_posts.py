"""The ceiling of webhooks: the same client library sends the same requests, as many at a time, without a database.

Run by ``bench.relay --broker http://127.0.0.1:8099/``, to the consumer that ``python -m bench.webhook_consumer URL``
runs meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator

import httpx

from bench import meter, workload
from fencepost.brokers.http.settings import Settings


def main(url: str, topic: str, rows: int, batch: int, size: int) -> dict[str, float]:
    """Messages per second and CPU per message."""
    return asyncio.run(_send(url, [(headers(row), row[6]) for row in workload.rows(rows, topic=topic, size=size)]))


async def _send(url: str, work: list[tuple[dict[str, str], bytes]]) -> dict[str, float]:
    at_once = Settings().connections
    limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    async with httpx.AsyncHTTPTransport(verify=False, trust_env=False, limits=limits) as pool:
        started, cpu = time.perf_counter(), meter.cpu_s()
        waiting = iter(work)
        await asyncio.gather(*[_worker(pool, url, waiting) for _ in range(at_once)])
        elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    return {"messages_per_s": len(work) / elapsed, "cpu_us_per_message": cpu / len(work) * 1e6}


async def _worker(pool: httpx.AsyncHTTPTransport, url: str, waiting: Iterator[tuple[dict[str, str], bytes]]) -> None:
    for fields, payload in waiting:
        response = await pool.handle_async_request(httpx.Request("POST", url, headers=fields, content=payload))
        await response.aread()
        await response.aclose()
        assert response.status_code == 204


def headers(row: workload.Row) -> dict[str, str]:
    """The headers of CloudEvents in binary mode, and those that the broker adds."""
    id_, topic, key, version, kind, _, _, content_type, moment = row
    found = {"ce-specversion": "1.0", "ce-source": "/bench", "ce-type": kind, "ce-id": id_, "ce-time": moment}
    found |= {"ce-subject": key, "ce-entityversion": version, "content-type": content_type, "idempotency-key": id_}
    return {name: str(value).replace(" ", "%20") for name, value in found.items()} | {"fencepost-topic": str(topic)}


def forget(url: str, topic: str) -> None:
    """The consumer keeps nothing."""


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
