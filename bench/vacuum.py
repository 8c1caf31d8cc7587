"""What a transaction that stays open costs: it keeps vacuum from removing the rows that a relay has settled.

    python -m bench.vacuum [--rate 800] [--minutes 30] [--json]

PostgreSQL. A snapshot is held all the while. So many rows are settled as come in ``minutes`` at ``rate``, in steps, and
after each step three things are measured: a look of an idle relay, a look of one for which 2,000 rows wait, and how
quickly a lane drains. At last the transaction ends, the table is vacuumed, and all is measured once more. The rows are
made and settled in bulk: what counts is how many dead ones there are, not how long it took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import asyncpg

from bench.servers import url_of
from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.postgresql import schema, source
from fencepost.ports import DatabaseOptions, Lane
from fencepost.relay.lane import LaneOptions
from fencepost.testing.relaying import relayed

LANE = Lane("vacuum")
STEPS = (0.0, 0.05, 0.25, 0.5, 1.0)
PAGE = 2_000
DRAINED = 20_000
_LOOKS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    options = _options(arguments)
    result = asyncio.run(measure(options.database or url_of("postgresql"), options.rate * options.minutes * 60))
    for line in result:
        print("  ".join(f"{name} {value:,.1f}" for name, value in line.items()), file=sys.stderr)
    if options.json:
        print(json.dumps([{name: round(value, 2) for name, value in line.items()} for line in result]))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.vacuum", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--database", help="a postgresql:// URL; tables of its own are made and dropped there")
    parser.add_argument("--rate", type=int, default=800, help="rows per second")
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="the last line is one JSON array, a line of figures each")
    return parser.parse_args(arguments)


async def measure(database: str, rows: int) -> list[dict[str, float]]:
    """A line of figures for each step, and one for after the vacuum."""
    options = DatabaseOptions(url=database, prefix=f"vacuum_{SYSTEM_CLOCK.new_id()[:8]}_")
    await schema(options).apply()
    connection, reader = await asyncpg.connect(database), await asyncpg.connect(database)
    try:
        await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await reader.execute("SELECT count(*) FROM pg_class")  # the snapshot is taken here
        found = [await _step(connection, options, int(rows * share)) for share in STEPS]
        await reader.execute("COMMIT")
        await connection.execute(f"VACUUM {options.prefix}outbox")
        return [*found, await _figures(connection, options)]
    finally:
        for table in ("outbox", "entity", "parked", "lease", "lane"):
            await connection.execute(f"DROP TABLE {options.prefix}{table}")
        await connection.close()
        await reader.close()


async def _step(connection: asyncpg.Connection, options: DatabaseOptions, dead: int) -> dict[str, float]:
    """Settle rows until so many are dead, then measure."""
    table = f"{options.prefix}outbox"
    drawn = await connection.fetchval(f"SELECT last_value FROM {table}_seq_seq")
    await _fill(connection, table, max(0, dead - drawn))
    await connection.execute(f"DELETE FROM {table}")
    return await _figures(connection, options)


async def _fill(connection: asyncpg.Connection, table: str, count: int) -> None:
    await connection.execute(
        f"INSERT INTO {table} (id, topic, key, version, type, slot, payload, content_type, occurred_at)"
        " SELECT gen_random_uuid(), 't', 'k' || mod(i, 5000), 1, 'x', mod(i, 256),"
        f" convert_to(repeat('x', 300), 'UTF8'), 'a/b', now() FROM generate_series(1, {count}) AS s (i)"
    )


async def _figures(connection: asyncpg.Connection, options: DatabaseOptions) -> dict[str, float]:
    table = f"{options.prefix}outbox"
    dead = await connection.fetchval(f"SELECT last_value FROM {table}_seq_seq")
    idle_ms = await _look_ms(options)
    await _fill(connection, table, DRAINED)
    busy_ms = await _look_ms(options)
    started = time.perf_counter()
    async with relayed(source(options), LANE, LaneOptions(batch=PAGE)) as relay:
        await relay.until(lambda: len(relay.ids("t")) >= DRAINED, 600.0)
    drained_s = time.perf_counter() - started
    return {
        "dead_rows": dead,
        "idle_look_ms": idle_ms,
        "page_look_ms": busy_ms,
        "drain_per_s": DRAINED / drained_s,
    }


async def _look_ms(options: DatabaseOptions) -> float:
    session = await source(options).connect()
    looks = []
    for _ in range(_LOOKS):
        started = time.perf_counter()
        await session.pending(LANE, PAGE)
        looks.append((time.perf_counter() - started) * 1000)
    await session.close()
    return statistics.median(looks)


if __name__ == "__main__":
    raise SystemExit(main())
