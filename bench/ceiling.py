"""The ceiling: the same bytes and headers in transactions of the same size by plain confluent-kafka, without a
database.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Producer

from bench import meter, workload
from fencepost.clock import SYSTEM_CLOCK


def main(servers: str, topic: str, rows: int, batch: int, size: int) -> dict[str, float]:
    """Messages per second and CPU per message of the produce and commit loop."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": f"ceiling-{SYSTEM_CLOCK.new_id()}",
            "linger.ms": 0,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
        }
    )
    producer.list_topics(topic, 10)
    producer.init_transactions(30)
    work = [(str(row[2]), row[6], headers(row)) for row in workload.rows(rows, topic=topic, size=size)]
    started, cpu = time.perf_counter(), meter.cpu_s()
    for first in range(0, rows, batch):
        producer.begin_transaction()
        produce = producer.produce
        for key, value, fields in work[first : first + batch]:
            produce(topic, value, key, headers=fields)
        producer.flush()
        producer.commit_transaction(30)
    elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    return {"messages_per_s": rows / elapsed, "cpu_us_per_message": cpu / rows * 1e6}


def headers(row: workload.Row) -> list[tuple[str, str | bytes | None]]:
    """The eight headers of CloudEvents in binary mode."""
    return [
        ("ce_specversion", "1.0"),
        ("ce_source", "/bench"),
        ("ce_type", str(row[4])),
        ("content-type", str(row[7])),
        ("ce_id", str(row[0])),
        ("ce_time", str(row[8])),
        ("ce_subject", str(row[2])),
        ("ce_entityversion", str(row[3])),
    ]


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
