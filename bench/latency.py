"""From the commit to a read_committed reader: a writer at a steady rate, the relay and the reader, each a process of
its own.

All three read the same monotonic clock of the machine, so that times of one process can be compared with another's.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import Any

from bench.servers import ROOT

_GRACE_S = 20.0


def measure(
    database: str, broker: str, *, program: str, topic: str, rate: int, seconds: int, size: int
) -> dict[str, float]:
    """Latency in milliseconds: p50, p90, p95, p99 and the largest. ``program`` is "drain" (the relay) or "bare"."""
    count = rate * seconds
    reader = _start("read", {"broker": broker, "topic": topic, "count": count})
    assert reader.stdout is not None
    reader.stdout.readline()  # it is at the end of the topic
    service = subprocess.Popen(
        [
            sys.executable,
            "-m",
            f"bench.{program}",
            json.dumps({"database": database, "broker": broker, "rows": count, "batch": 2000, "relay": topic}),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(3.0)  # the relay leads and is idle
    writer = _start("write", {"database": database, "topic": topic, "rate": rate, "seconds": seconds, "size": size})
    written = json.loads(writer.communicate(timeout=seconds + _GRACE_S)[0])
    read = json.loads(reader.communicate(timeout=_GRACE_S)[0])
    service.communicate(timeout=_GRACE_S)
    late = sorted((read[id_] - at) * 1000 for id_, at in written.items())
    cuts = statistics.quantiles(late, n=100)
    return {
        "p50_ms": cuts[49],
        "p90_ms": cuts[89],
        "p95_ms": cuts[94],
        "p99_ms": cuts[98],
        "max_ms": late[-1],
    }


def _start(role: str, options: dict[str, object]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.latency", role, json.dumps(options)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def write(database: str, topic: str, rate: int, seconds: int, size: int) -> dict[str, float]:
    """Commit ``rate`` messages a second, one transaction each; when each commit had returned, by id."""
    import asyncpg

    from bench import workload
    from fencepost import AsyncOutbox

    outbox, body = AsyncOutbox(), workload.payload(size)
    connection = await asyncpg.connect(database)
    committed: dict[str, float] = {}
    started = time.perf_counter()
    for n in range(rate * seconds):
        await asyncio.sleep(max(0.0, started + n / rate - time.perf_counter()))
        async with connection.transaction():
            message = await outbox.add(connection, topic, body, key=f"customer-{n % workload.KEYS}")
        committed[message.id] = time.perf_counter()
    await connection.close()
    return committed


def read(broker: str, topic: str, count: int) -> dict[str, float]:
    """Read ``count`` messages, one poll each (a batch would wait to be filled); when each was there, by id."""
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    servers = broker.removeprefix("kafka://")
    admin = AdminClient({"bootstrap.servers": servers})  # kept: without it the call is given up
    admin.create_topics([NewTopic(topic, 1)])[topic].result(10)
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "isolation.level": "read_committed", "fetch.wait.max.ms": 500}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(1.0)
    print("ready", flush=True)
    seen: dict[str, float] = {}
    while len(seen) < count:
        message = consumer.poll(_GRACE_S)
        if message is None:
            raise SystemExit(f"{len(seen)} of {count} messages arrived")
        if message.error() is None:
            seen[_id(message.headers())] = time.perf_counter()
    consumer.close()
    return seen


def _id(headers: Any) -> str:
    return str(dict(headers)["ce_id"], "ascii")


if __name__ == "__main__":
    role, options = sys.argv[1], json.loads(sys.argv[2])
    result = asyncio.run(write(**options)) if role == "write" else read(**options)
    print(json.dumps(result))
