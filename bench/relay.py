"""How fast a relay drains, how late a message is, and what adding one costs: everything beside its ceiling, in one run.

    python -m bench.relay [--rows 200000] [--rounds 3] [--json]

Works on the servers of dev/services, or on those named by --database and --broker. Figures are medians over the
rounds; ratios are taken round by round, because the speed of a shared machine drifts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import add, brokers, latency, outboxes, workload
from bench.servers import child, url_of
from fencepost import plugins
from fencepost.clock import SYSTEM_CLOCK


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    options = _options(arguments)
    database = options.database or url_of("postgresql")
    broker = options.broker or url_of("kafka")
    run = f"bench-{SYSTEM_CLOCK.new_id()[:13]}"
    result: dict[str, float] = {"rows": options.rows, "payload_bytes": options.size, "batch": options.batch}
    kind, target = plugins.name_of("database", database), plugins.name_of("broker", broker)
    if target in brokers.MODULES:
        say(f"{kind} to {target}: {options.rows:,} rows of {options.size} bytes")
        result |= brokers.measure(kind, database, target, broker, run, options, say)
    elif kind in outboxes.MODULES:
        say(f"{kind} to {plugins.name_of('broker', broker)}: {options.rows:,} rows of {options.size} bytes")
        result |= outboxes.measure(kind, database, broker, run, options, say)
    else:
        result |= _to_kafka(database, broker, run, options)
    if options.json:
        print(json.dumps({name: round(value, 2) for name, value in result.items()}))
    return 0


def _to_kafka(database: str, broker: str, run: str, options: argparse.Namespace) -> dict[str, float]:
    result: dict[str, float] = {}
    say(f"PostgreSQL to Kafka, exactly-once: {options.rows:,} rows of {options.size} bytes, {os.cpu_count()} cores")
    if "drain" in options.parts:
        result |= drain(database, broker, run, options)
    if "latency" in options.parts:
        result |= late(database, broker, run, options)
    if "add" in options.parts:
        result |= adding(database, options)
    return result


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.relay", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--database", help="the URL of any database that Fencepost knows; the outbox there is emptied")
    parser.add_argument("--broker", help="a broker's URL; of others than Kafka only the drain is measured")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=300, help="payload bytes of a message")
    parser.add_argument("--batch", type=int, default=2000, help="messages of one transaction")
    parser.add_argument(
        "--settle", choices=("delete", "mark"), default="delete", help="what becomes of rows that are published"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=200, help="messages per second while latency is measured")
    parser.add_argument(
        "--seconds", type=int, default=20, help="of the latency part, and of each run of the add part / 4"
    )
    parser.add_argument("--parts", nargs="+", choices=("drain", "latency", "add"), default=["drain", "latency", "add"])
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    """A line for people."""
    print(line, file=sys.stderr, flush=True)


def drain(database: str, broker: str, run: str, options: argparse.Namespace) -> dict[str, float]:
    """The relay, the bare relay and the ceiling in turn."""
    rounds = []
    for n in range(options.rounds):
        topic = f"{run}-{n}"
        plain = child(
            "ceiling", {"servers": broker.removeprefix("kafka://"), "topic": f"{topic}-ceiling", **_sizes(options)}
        )
        shape = {"database": database, "broker": broker, "rows": options.rows, "batch": options.batch, "relay": topic}
        workload.fill_sync(database, options.rows, topic=topic, size=options.size)
        relay = child("drain", shape | {"settle": options.settle})
        workload.fill_sync(database, options.rows, topic=topic, size=options.size)
        bare = child("bare", shape)
        rounds.append((relay, bare, plain))
        say(
            f"  round {n + 1}: relay {relay['messages_per_s']:>9,.0f}/s  {relay['cpu_us_per_message']:5.1f} us CPU"
            f"  {relay['peak_rss_mb']:5.0f} MB   ceiling {plain['messages_per_s']:>9,.0f}/s"
            f"  {plain['cpu_us_per_message']:5.1f} us   ratio {relay['messages_per_s'] / plain['messages_per_s']:.2f}"
            f"   bare relay {bare['messages_per_s']:>9,.0f}/s  {bare['cpu_us_per_message']:5.1f} us"
        )
    middle = statistics.median
    return {
        "messages_per_s": middle(r["messages_per_s"] for r, _, _ in rounds),
        "ceiling_per_s": middle(c["messages_per_s"] for _, _, c in rounds),
        "bare_per_s": middle(b["messages_per_s"] for _, b, _ in rounds),
        "ratio_to_ceiling": middle(r["messages_per_s"] / c["messages_per_s"] for r, _, c in rounds),
        "ratio_to_bare": middle(r["messages_per_s"] / b["messages_per_s"] for r, b, _ in rounds),
        "cpu_us_per_message": middle(r["cpu_us_per_message"] for r, _, _ in rounds),
        "bare_cpu_us_per_message": middle(b["cpu_us_per_message"] for _, b, _ in rounds),
        "ceiling_cpu_us_per_message": middle(c["cpu_us_per_message"] for _, _, c in rounds),
        "peak_rss_mb": max(r["peak_rss_mb"] for r, _, _ in rounds),
        "messages_per_batch": middle(r["messages_per_batch"] for r, _, _ in rounds),
    }


def _sizes(options: argparse.Namespace) -> dict[str, object]:
    return {"rows": options.rows, "batch": options.batch, "size": options.size}


def late(database: str, broker: str, run: str, options: argparse.Namespace) -> dict[str, float]:
    """Latency at a steady rate: of the relay and of the bare relay in turn."""
    rounds = []
    shape = {"rate": options.rate, "seconds": options.seconds, "size": options.size}
    for n in range(options.rounds):
        found = []
        for program in ("drain", "bare"):
            workload.fill_sync(database, 0, topic=run, size=options.size)
            topic = f"{run}-latency-{n}-{program}"
            found.append(latency.measure(database, broker, program=program, topic=topic, **shape))
        relay, bare = found
        rounds.append((relay, bare))
        say(
            f"  latency at {options.rate}/s, round {n + 1}: p50 {relay['p50_ms']:.1f} ms, p90 {relay['p90_ms']:.1f},"
            f" p99 {relay['p99_ms']:.1f}, max {relay['max_ms']:.1f} ms"
            f"   bare relay p50 {bare['p50_ms']:.1f}, p99 {bare['p99_ms']:.1f} ms"
        )
    middle = statistics.median
    return {f"latency_{name}": middle(r[name] for r, _ in rounds) for name in rounds[0][0]} | {
        f"latency_bare_{name}": middle(b[name] for _, b in rounds) for name in rounds[0][1]
    }


def adding(database: str, options: argparse.Namespace) -> dict[str, float]:
    """What a message costs the business transaction."""
    found = add.measure(database, rounds=options.rounds, seconds=max(2, options.seconds // 4), size=options.size)
    for name, value in found.items():
        say(f"  {name:24} {value:>9,.2f}" if name.endswith("_to_bare") else f"  {name:24} {value:>9,.0f}/s")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
