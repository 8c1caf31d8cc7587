"""A long outbox costs a read no more than a short one, whatever waits in it and for what (D7, D8); a snapshot (D9)."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from contextlib import closing
from typing import Any

import psycopg
import pytest

from fencepost.databases.postgresql import PostgresqlSession
from fencepost.databases.sqlite import SqliteSession
from fencepost.events import Event, Published
from fencepost.relay.lane import LaneOptions
from fencepost.sql.source import LOWEST
from fencepost.sql.tables import State
from fencepost.testing.relaying import relayed
from tests.databases.places import LANE, PostgresqlPlace, SqlitePlace

SHORT, LONG, VERY_LONG = 4_000, 200_000, 5_000_000
SQLITE_LONG = 60_000
OPTIONS = LaneOptions(batch=500)
PENDING, DELAYED = int(State.PENDING), int(State.DELAYED)
READS = {"pending": f"{LOWEST}, 2000", "pending_in_slots": f"{LOWEST}, 0, 255, 2000", "below": "2000, 2000"}

COLUMNS = "(id, topic, key, version, type, slot, payload, content_type, occurred_at, available_at, state)"


def fill(place: PostgresqlPlace, count: int, state: int = PENDING) -> None:
    """Rows that nobody has told the planner of."""
    place.ask(f"ALTER TABLE {place.outbox} SET (autovacuum_enabled = false)")
    place.ask(f"ANALYZE {place.outbox}")
    place.ask(
        f"INSERT INTO {place.outbox} {COLUMNS} SELECT gen_random_uuid(), 't', 'k' || mod(i, 5000), 1, 'x', mod(i, 256),"
        " convert_to(repeat('x', 200), 'UTF8'), 'a/b', now(), now() + interval '1 day', %s"
        f" FROM generate_series(1, {count}) AS s (i)",
        state,
    )


async def pages_touched(place: PostgresqlPlace, name: str) -> int:
    """Pages of 8 kB that the relay's own statement looks at, planned and set as the relay's connections are."""
    session = await place.source.connect()
    assert isinstance(session, PostgresqlSession)
    connection = session._reader.connection
    await connection.execute(f"PREPARE {name} AS {getattr(session._statements, name)}")
    await connection.execute("BEGIN")
    arguments = READS.get(name, "1000")
    found: Any = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {name} ({arguments})")
    await connection.execute("ROLLBACK")
    await session.close()
    plan = (found if isinstance(found, list) else json.loads(found))[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def touched(place: PostgresqlPlace) -> dict[str, int]:
    return {name: await pages_touched(place, name) for name in (*READS, "release_due")}


async def test_d8_a_read_of_a_long_outbox_touches_as_much_as_one_of_a_short_one(postgresql: PostgresqlPlace) -> None:
    """With statistics of an empty table. A page of an index more or less."""
    fill(postgresql, SHORT)
    short = await touched(postgresql)
    fill(postgresql, LONG)
    long = await touched(postgresql)
    assert short["pending"] > 20, "it does read"
    assert {name: pages <= short[name] + 20 for name, pages in long.items()} == dict.fromkeys(long, True), (short, long)


async def test_d7_what_is_due_later_costs_a_read_nothing(postgresql: PostgresqlPlace) -> None:
    """All of them stand below what may be published now."""
    fill(postgresql, LONG, DELAYED)
    fill(postgresql, 10)
    found = await touched(postgresql)
    assert max(found.values()) <= 20, found


async def peak_bytes(place: PostgresqlPlace, batches: int) -> tuple[int, list[Event]]:
    """The most memory while a lane publishes so many batches; the broker in memory is emptied all the while."""
    async with relayed(place.source, LANE, OPTIONS) as relay:
        await relay.until(lambda: len(relay.told(Published)) >= 2)
        tracemalloc.start()
        try:
            relay.server.seen = lambda *_: relay.server._topics.clear()
            await relay.until(lambda: len(relay.told(Published)) >= batches, 600.0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    return peak, relay.events


async def test_d7_memory_does_not_grow_with_what_waits(postgresql: PostgresqlPlace) -> None:
    fill(postgresql, SHORT * 3)
    small, _ = await peak_bytes(postgresql, 20)
    postgresql.ask(f"TRUNCATE {postgresql.outbox}")
    fill(postgresql, LONG // 2)
    large, events = await peak_bytes(postgresql, 20)
    assert max(event.messages for event in events if isinstance(event, Published)) <= OPTIONS.batch
    assert large < 1.3 * small, (small, large)


async def test_d9_a_snapshot_holds_vacuum_back(postgresql: PostgresqlPlace) -> None:
    """Reads pass the dead rows, everything is published all the same, and a vacuum after its end makes it as before."""
    fill(postgresql, SHORT)
    before = await pages_touched(postgresql, "pending")
    with closing(psycopg.connect(postgresql.options.url)) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM pg_class LIMIT 1")
        await _drained(postgresql, SHORT)
        fill(postgresql, 10 * SHORT)
        await _drained(postgresql, 10 * SHORT)
        postgresql.ask(f"VACUUM {postgresql.outbox}")
        fill(postgresql, SHORT)
        held_back = await pages_touched(postgresql, "pending")
        assert held_back > 5 * before, "nothing could be removed"
    postgresql.ask(f"VACUUM {postgresql.outbox}")
    assert await pages_touched(postgresql, "pending") <= before + 20
    await _drained(postgresql, SHORT)


async def _drained(place: PostgresqlPlace, count: int) -> None:
    async with relayed(place.source, LANE, LaneOptions()) as relay:
        await relay.until(lambda: len(relay.ids("t")) >= count)
    assert place.ask(f"SELECT count(*) FROM {place.outbox}") == [(0,)]


@pytest.mark.long
async def test_d7_five_million_wait_and_five_million_are_due_later(postgresql: PostgresqlPlace) -> None:
    """Ten million rows, some minutes of work."""
    fill(postgresql, SHORT)
    short = await touched(postgresql)
    fill(postgresql, VERY_LONG, DELAYED)
    fill(postgresql, VERY_LONG)
    long = await touched(postgresql)
    assert {name: pages <= short[name] + 20 for name, pages in long.items()} == dict.fromkeys(long, True), (short, long)
    peak, events = await peak_bytes(postgresql, 100)
    assert peak < 100_000_000
    assert len([event for event in events if isinstance(event, Published)]) >= 100


# ------------------------------------------------------------------------------------------------------------- SQLite


def fill_sqlite(place: SqlitePlace, count: int, state: int = PENDING) -> None:
    with closing(sqlite3.connect(place.path)) as connection, connection:
        connection.execute(
            f"INSERT INTO {place.outbox} {COLUMNS} WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s"
            f" WHERE i < {count}) SELECT lower(hex(randomblob(18))), 't', 'k' || mod(i, 5000), 1, 'x', mod(i, 256),"
            f" zeroblob(200), 'a/b', '2026-03-01 00:00:00.000000', '2099-03-01 00:00:00.000000', {state} FROM s"
        )


async def steps(place: SqlitePlace, name: str) -> int:
    """How much SQLite does for a statement: its virtual machine's instructions, in hundreds."""
    session = await place.source.connect()
    assert isinstance(session, SqliteSession)
    text = getattr(session._statements, name)
    await session.close()
    for argument in READS[name].split(", ") if name in READS else ():
        text = text.replace("?", argument, 1)
    ticks = []
    with closing(sqlite3.connect(place.path)) as connection:
        connection.set_progress_handler(lambda: ticks.append(1), 100)
        connection.execute(text).fetchall()
    return len(ticks)


async def worked(place: SqlitePlace) -> dict[str, int]:
    return {name: await steps(place, name) for name in (*READS, "next_due")}


async def test_d7_d8_on_sqlite_too(sqlite: SqlitePlace) -> None:
    fill_sqlite(sqlite, SHORT)
    short = await worked(sqlite)
    fill_sqlite(sqlite, SQLITE_LONG)
    long = await worked(sqlite)
    assert short["pending"] > 100, "it does read"
    assert {name: ticks <= short[name] + 5 for name, ticks in long.items()} == dict.fromkeys(long, True), (short, long)


async def test_d7_on_sqlite_what_is_due_later_costs_a_read_nothing(sqlite: SqlitePlace) -> None:
    fill_sqlite(sqlite, SQLITE_LONG, DELAYED)
    fill_sqlite(sqlite, 10)
    found = await worked(sqlite)
    assert max(found.values()) <= 20, found
