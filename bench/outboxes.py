"""The databases beside PostgreSQL: the relay's drain beside a ceiling of the same run, and what adding costs.

A module for each knows the database: ``fill`` makes the backlog, run as a program it is the ceiling (the same driver
reads and deletes the same messages, without a broker and without a promise), ``adding`` measures writers.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from importlib import import_module

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
Say = Callable[[str], None]


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
    fill, rounds = import_module(f"bench.{MODULES[kind]}").fill, []
    for n in range(options.rounds):
        topic = f"{run}-{n}"
        fill(database, options.rows, topic=topic, size=options.size)
        plain = child(MODULES[kind], {"url": database, "rows": options.rows, "batch": options.batch})
        fill(database, options.rows, topic=topic, size=options.size)
        shape = {"database": database, "broker": broker, "rows": options.rows, "batch": options.batch, "relay": topic}
        relay = child("drain", shape | {"settle": options.settle})
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
        "peak_rss_mb": max(r["peak_rss_mb"] for r, _ in rounds),
    }
