"""The databases beside PostgreSQL: the relay's drain beside a ceiling of the same run, and what adding costs.

A module for each knows the database: ``fill`` makes the backlog, run as a program it is the ceiling (the same driver
reads and deletes the same messages, without a broker and without a promise), ``adding`` measures writers.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from bench import rounds
from bench.rounds import Say
from bench.servers import child

MODULES = {
    "dynamodb": "dynamodb_outbox",
    "mariadb": "mariadb_outbox",
    "mongodb": "mongodb_outbox",
    "mongodb-embedded": "mongodb_outbox",
    "mysql": "mariadb_outbox",
    "redis": "redis_outbox",
    "sqlite": "sqlite_outbox",
}
"""By the name of the database's plug-in."""


def measure(kind: str, database: str, broker: str, run: str, options: argparse.Namespace, say: Say) -> dict[str, float]:
    """The parts that there are for every database: drain and add."""
    result: dict[str, float] = {}
    if "drain" in options.parts:
        result |= _drain(kind, database, broker, run, options, say)
    if "add" in options.parts:
        added: dict[str, float] = import_module(f"bench.{MODULES[kind]}").adding(database, options)
        for name, value in added.items():
            say(f"  {name:24} {value:>9,.2f}" if name.endswith("_to_bare") else f"  {name:24} {value:>9,.0f}/s")
        result |= added
    return result


def _drain(kind: str, database: str, broker: str, run: str, options: argparse.Namespace, say: Say) -> dict[str, float]:
    fill = import_module(f"bench.{MODULES[kind]}").fill

    def one_round(topic: str) -> rounds.Pair:
        fill(database, options.rows, topic=topic, size=options.size)
        plain = child(MODULES[kind], {"url": database, "rows": options.rows, "batch": options.batch})
        fill(database, options.rows, topic=topic, size=options.size)
        shape = {"database": database, "broker": broker, "rows": options.rows, "batch": options.batch, "relay": topic}
        return child("drain", shape | {"settle": options.settle}), plain

    return rounds.measured(one_round, run, options.rounds, say)
