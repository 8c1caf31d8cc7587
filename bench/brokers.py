"""The brokers beside Kafka: the relay's drain beside a ceiling of the same run.

A module for each knows the broker: run as a program it is the ceiling (the same client library sends the same bytes in
batches of the same size, without a database and without a promise), ``forget`` removes what was published.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from importlib import import_module

from bench import workload
from bench.outboxes import MODULES as DATABASES
from bench.servers import child

MODULES = {
    "file": "file_lines",
    "http": "webhook_posts",
    "mqtt": "mqtt_acks",
    "sql": "inbox_table",
    "rabbitmq": "rabbitmq_queue",
    "redis": "redis_streams",
    "sns": "aws_requests",
    "sqs": "aws_requests",
}
"""By the name of the broker's plug-in."""
Say = Callable[[str], None]


def measure(
    kind: str, database: str, target: str, broker: str, run: str, options: argparse.Namespace, say: Say
) -> dict[str, float]:
    """Drain from a database of this ``kind`` to the broker ``target``, beside what the broker takes by itself."""
    module = MODULES[target]
    fill = import_module(f"bench.{DATABASES[kind]}").fill if kind in DATABASES else workload.fill_sync
    forget: Callable[[str, str], None] = import_module(f"bench.{module}").forget
    shape = {"rows": options.rows, "batch": options.batch}
    rounds = []
    for n in range(options.rounds):
        topic = f"{run}-{n}"
        plain = child(module, {"url": broker, "topic": topic, "size": options.size, **shape})
        forget(broker, topic)
        fill(database, options.rows, topic=topic, size=options.size)
        own = {"database": database, "broker": broker, "relay": topic, "settle": options.settle}
        relay = child("drain", own | shape)
        forget(broker, topic)
        rounds.append((relay, plain))
        say(
            f"  round {n + 1}: relay {relay['messages_per_s']:>9,.0f}/s  {relay['cpu_us_per_message']:5.1f} us CPU"
            f"  {relay['peak_rss_mb']:5.0f} MB   ceiling {plain['messages_per_s']:>9,.0f}/s"
            f"  {plain['cpu_us_per_message']:5.1f} us   ratio {relay['messages_per_s'] / plain['messages_per_s']:.2f}"
        )
    middle = statistics.median
    return {
        "messages_per_s": middle(r["messages_per_s"] for r, _ in rounds),
        "ceiling_per_s": middle(c["messages_per_s"] for _, c in rounds),
        "ratio_to_ceiling": middle(r["messages_per_s"] / c["messages_per_s"] for r, c in rounds),
        "cpu_us_per_message": middle(r["cpu_us_per_message"] for r, _ in rounds),
        "ceiling_cpu_us_per_message": middle(c["cpu_us_per_message"] for _, c in rounds),
        "publishing_share": middle(r["publishing_share"] for r, _ in rounds),
    }
