"""Redis: how fast a relay drains beside what redis-py reads and deletes without a broker, and what adding costs.

Run by ``bench.relay --database redis://...``; that outbox is emptied.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import redis

from bench import meter, workload
from fencepost.databases.redis import NewMessage, RedisOutbox

_PIPE = 1000
_TRANSACTIONS = 3000


def fill(database: str, count: int, *, topic: str, size: int) -> None:
    """An outbox with ``count`` pending messages and nothing else."""
    outbox, body = RedisOutbox(), workload.payload(size)
    with redis.Redis.from_url(database) as client:
        own = ("fencepost_entity:*", "fencepost_bench_*", "fencepost_outbox", "fencepost_position")  # no other outbox's
        names = [name for each in own for name in client.scan_iter(match=each, count=1000)]
        if names:
            client.unlink(*names)
        for first in range(0, count, _PIPE):
            numbers = range(first, min(first + _PIPE, count))
            with client.pipeline() as pipe:
                outbox.add_all(pipe, [_message(topic, n, body) for n in numbers])
                pipe.execute()


def _message(topic: str, n: int, body: bytes) -> NewMessage:
    key = f"customer-{n % workload.KEYS}"
    return NewMessage(topic, body, key, type="order.placed", content_type="application/json")


def ceiling(url: str, rows: int, batch: int) -> dict[str, float]:
    """Read and delete every message with redis-py, a batch at a time; nothing is published, no promise is kept."""
    return asyncio.run(_ceiling(url, rows, batch))


async def _ceiling(url: str, rows: int, batch: int) -> dict[str, float]:
    import redis.asyncio

    done, started, cpu = 0, time.perf_counter(), meter.cpu_s()
    made: Any = redis.asyncio.Redis.from_url(url)
    async with made as client:
        while done < rows:
            page = await client.xrange("fencepost_outbox", count=batch)
            done += await client.xdel("fencepost_outbox", *[name for name, _ in page])
    elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    return {"messages_per_s": done / elapsed, "cpu_us_per_message": cpu / done * 1e6}


# ------------------------------------------------------------------------------------------------- what adding costs


def adding(database: str, options: argparse.Namespace) -> dict[str, float]:
    """Transactions per second of one writer: HSET and INCR alone, with a bare XADD, and with a message."""
    body = workload.payload(options.size)
    counter, position = RedisOutbox(), RedisOutbox(versions="position", prefix="fencepost_bench_")
    forms: dict[str, Callable[[Any, int], object]] = {
        "none": lambda pipe, n: None,
        "bare_xadd": lambda pipe, n: pipe.xadd("fencepost_bench_bare", {"payload": body}),
        "counter": lambda pipe, n: counter.add(pipe, "bench", body, key=f"customer-{n % workload.KEYS}"),
        "position": lambda pipe, n: position.add(pipe, "bench", body, key=f"customer-{n % workload.KEYS}"),
    }
    found: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(options.rounds):
        fill(database, 0, topic="bench", size=options.size)
        for name, add in forms.items():
            found[name].append(_rate(database, add))
    result = {f"add_tps_{name}": statistics.median(values) for name, values in found.items()}
    return result | {"add_counter_to_bare": result["add_tps_counter"] / result["add_tps_bare_xadd"]}


def _rate(database: str, add: Callable[[Any, int], object]) -> float:
    with redis.Redis.from_url(database) as client:
        started = time.perf_counter()
        for n in range(_TRANSACTIONS):
            with client.pipeline() as pipe:
                pipe.hincrby("fencepost_bench_account", str(n % workload.KEYS), 1)
                pipe.incr("fencepost_bench_entries")
                add(pipe, n)
                pipe.execute()
        return _TRANSACTIONS / (time.perf_counter() - started)


if __name__ == "__main__":
    print(json.dumps(ceiling(**json.loads(sys.argv[1]))))
