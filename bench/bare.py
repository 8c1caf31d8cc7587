"""A bare relay: read, one transaction at the broker, delete, in one thread that blocks. It keeps no promise.

No lease, no fence, no fail-over, no wake-up (it looks twice in a millisecond), nothing for a message that is refused.
What it reaches is what this machine's servers and libraries give at the hour of the run.
"""

from __future__ import annotations

import json
import sys
import time

import psycopg
from confluent_kafka import Producer

from bench import meter
from fencepost.clock import SYSTEM_CLOCK

_LOOK_AGAIN_S = 0.0005
_PENDING = (
    "SELECT seq, id, topic, key, version, type, payload, content_type, occurred_at"
    " FROM fencepost_outbox WHERE state = 0 ORDER BY seq LIMIT %s"
)
_SETTLE = "DELETE FROM fencepost_outbox WHERE seq = ANY(%s)"


def main(database: str, broker: str, rows: int, batch: int, relay: str) -> dict[str, float]:
    """Publish ``rows`` rows; the same shape as ``bench.drain``."""
    producers = [_producer(broker.removeprefix("kafka://")) for _ in range(2)]
    connection = psycopg.connect(database, autocommit=True)
    done = batches = 0
    started, cpu = time.perf_counter(), meter.cpu_s()
    while done < rows:
        got = connection.execute(_PENDING, (batch,), binary=True).fetchall()
        if not got:
            time.sleep(_LOOK_AGAIN_S)
            continue
        producer = producers[batches % 2]
        producer.begin_transaction()
        producer.produce(f"{relay}-receipts", json.dumps([str(row[1]) for row in got]), "receipt", 0)
        for row in got:
            producer.produce(row[2], row[6], row[3], headers=_headers(row))
        producer.commit_transaction(30)
        connection.execute(_SETTLE, ([row[0] for row in got],))
        done, batches = done + len(got), batches + 1
    elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    return {
        "messages_per_s": done / elapsed,
        "cpu_us_per_message": cpu / done * 1e6,
        "peak_rss_mb": meter.peak_rss_mb(),
        "messages_per_batch": done / batches,
    }


def _producer(servers: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": f"bare-{SYSTEM_CLOCK.new_id()}",
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "socket.nagle.disable": True,
        }
    )
    producer.init_transactions(30)
    return producer


def _headers(row: tuple[object, ...]) -> list[tuple[str, str | bytes | None]]:
    _, message_id, _, key, version, kind, _, content_type, occurred_at = row
    return [
        ("ce_specversion", "1.0"),
        ("ce_source", "/bench"),
        ("ce_type", str(kind)),
        ("content-type", str(content_type)),
        ("ce_id", str(message_id)),
        ("ce_time", str(occurred_at)),
        ("ce_subject", str(key)),
        ("ce_entityversion", str(version)),
    ]


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
