"""The brokers beside Kafka: the relay's drain beside a ceiling of the same run.

A module for each knows the broker: run as a program it is the ceiling (the same client library sends the same bytes in
batches of the same size, without a database and without a promise), ``forget`` removes what was published.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module

from bench import rounds, workload
from bench.outboxes import MODULES as DATABASES
from bench.rounds import Say
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


def measure(
    kind: str, database: str, target: str, broker: str, run: str, options: argparse.Namespace, say: Say
) -> dict[str, float]:
    """Drain from a database of this ``kind`` to the broker ``target``, beside what the broker takes by itself."""
    module = MODULES[target]
    fill = import_module(f"bench.{DATABASES[kind]}").fill if kind in DATABASES else workload.fill_sync
    forget: Callable[[str, str], None] = import_module(f"bench.{module}").forget
    shape = {"rows": options.rows, "batch": options.batch}

    def one_round(topic: str) -> rounds.Pair:
        plain = child(module, {"url": broker, "topic": topic, "size": options.size, **shape})
        forget(broker, topic)
        fill(database, options.rows, topic=topic, size=options.size)
        own = {"database": database, "broker": broker, "relay": topic, "settle": options.settle}
        relay = child("drain", own | shape)
        forget(broker, topic)
        return relay, plain

    return rounds.measured(one_round, run, options.rounds, say)
