"""The ceiling of Redis Streams: redis-py adds the same fields in MULTI/EXEC of the same size, without a database.

Run by ``bench.relay --broker redis://...``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import redis
import redis.asyncio

from bench import meter, workload


def main(url: str, topic: str, rows: int, batch: int, size: int) -> dict[str, float]:
    """Messages per second and CPU per message."""
    return asyncio.run(_add(url, topic, rows, batch, size))


async def _add(url: str, topic: str, rows: int, batch: int, size: int) -> dict[str, float]:
    work: list[Any] = [fields(row) for row in workload.rows(rows, topic=topic, size=size)]
    async with redis.asyncio.Redis.from_url(url) as client:
        started, cpu = time.perf_counter(), meter.cpu_s()
        for first in range(0, rows, batch):
            async with client.pipeline(transaction=True) as pipe:
                for entry in work[first : first + batch]:
                    pipe.xadd(topic, entry)
                await pipe.execute()
        elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    return {"messages_per_s": rows / elapsed, "cpu_us_per_message": cpu / rows * 1e6}


def fields(row: workload.Row) -> dict[str, str | bytes]:
    """The fields of an entry: CloudEvents in binary mode."""
    return {
        "ce_specversion": "1.0",
        "ce_source": "/bench",
        "ce_type": str(row[4]),
        "content-type": str(row[7]),
        "ce_id": str(row[0]),
        "ce_time": str(row[8]),
        "ce_subject": str(row[2]),
        "ce_entityversion": str(row[3]),
        "payload": row[6],
    }


def forget(url: str, topic: str) -> None:
    """Remove what was published, and what the relay of this name keeps."""
    with redis.Redis.from_url(url) as client:
        own = list(client.scan_iter(f"fencepost:*:{topic}.*", count=1000))
        client.unlink(topic, *own)


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
