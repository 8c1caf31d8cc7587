"""How the databases find the rows: through an index, whatever they believe about the size of the table."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

import pytest

from fencepost.databases.postgresql import PostgresqlSession
from fencepost.databases.sqlite import SqliteSession
from fencepost.ports import Session
from fencepost.sql.source import LOWEST
from tests.databases.places import LANE, Place, PostgresqlPlace, SqlitePlace, row

ROWS = 200_000
A_UUID = "{00000000-0000-0000-0000-000000000000}"

# The arguments as SQL, and how many pages of 8 kB the statement may look at.
PLANS = {
    "pending": (f"{LOWEST}, 2000", 300),
    "pending_in_slots": (f"{LOWEST}, 0, 127, 1000", 300),
    "settle": (f"'{{150000}}', '{A_UUID}'", 20),
    "settle_between": (f"150000, 150000, '{A_UUID}'", 20),
    "in_doubt": (f"1, '{{150000}}', '{A_UUID}'", 20),
    "held": ("'{1,150000}', '{1000,151000}'", 300),
    "failed": ("'no', 150000, '00000000-0000-0000-0000-000000000000'", 20),
    "copy_to_parked": ("'no', 150000, '00000000-0000-0000-0000-000000000000'", 20),
    "remove": ("150000, '00000000-0000-0000-0000-000000000000'", 20),
    "release_due": ("1000", 20),
}


@pytest.fixture
async def misjudged(postgresql: PostgresqlPlace) -> PostgresqlPlace:
    """A table whose statistics were taken when it was empty."""
    outbox = postgresql.outbox
    postgresql.ask(f"ALTER TABLE {outbox} SET (autovacuum_enabled = false)")
    postgresql.ask(f"ANALYZE {outbox}")
    postgresql.ask(
        f"INSERT INTO {outbox} (id, topic, key, version, type, slot, payload, content_type, occurred_at)"
        " SELECT gen_random_uuid(), 't', 'k' || i, 1, 'x', i % 256, convert_to(repeat('x', 200), 'UTF8'), 'a/b', now()"
        f" FROM generate_series(1, {ROWS}) AS s (i)"
    )
    return postgresql


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in nodes(child))]


async def explain(session: PostgresqlSession, name: str) -> list[dict[str, Any]]:
    arguments, _ = PLANS[name]
    connection = session._reader.connection
    await connection.execute(f"PREPARE {name} AS {getattr(session._statements, name)}")
    await connection.execute("BEGIN")
    text = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {name}({arguments})")
    await connection.execute("ROLLBACK")
    found: dict[str, Any] = (text if isinstance(text, list) else json.loads(text))[0]["Plan"]
    return nodes(found)


async def test_statistics_of_an_empty_table_do_not_matter(misjudged: PostgresqlPlace) -> None:
    """D7, D8: every statement goes through an index, without a sort, and looks at few pages."""
    session = await misjudged.source.connect()
    assert isinstance(session, PostgresqlSession)
    for name, (_, pages) in PLANS.items():
        plan = await explain(session, name)
        scans = [n for n in plan if "Relation Name" in n and n["Relation Name"] == misjudged.outbox]
        scanned = {n["Index Name"] for n in scans if n["Node Type"].startswith("Index")}
        wanted = {"release_due": {"due"}, "pending": {"ready", "pkey"}, "pending_in_slots": {"ready", "pkey"}}
        indexes = {f"{misjudged.outbox}_{index}" for index in wanted.get(name, {"pkey"})}
        assert indexes & scanned, (name, plan)
        assert not {"Seq Scan", "Bitmap Heap Scan"} & {n["Node Type"] for n in scans}, name
        if name.startswith("pending"):
            assert "Sort" not in {n["Node Type"] for n in plan}
        touched = plan[0]["Shared Hit Blocks"] + plan[0]["Shared Read Blocks"]
        assert 0 < touched < pages, (name, touched)
    await session.close()


async def test_polls_stay_quick_while_a_backlog_is_drained(misjudged: PostgresqlPlace) -> None:
    """And the receipts of 64 batches are checked at once, over dead rows that nobody has cleaned up."""
    session = await misjudged.source.connect()
    polls = []
    for _ in range(20):
        began = time.perf_counter()
        rows = await session.pending(LANE, 2000)
        polls.append(time.perf_counter() - began)
        assert await session.settle([(m.position, m.id) for m in rows]) == 2000
    assert sorted(polls)[10] < 0.5
    every_second = [(i, i) for i in range(40_000 - 128_000, 40_000, 2)]
    began = time.perf_counter()
    assert await session.held(every_second) == []
    assert len(await session.held([(1, 42_000)])) == 2000
    assert time.perf_counter() - began < 5
    await session.close()


# ------------------------------------------------------------------------------------------------------------- SQLite


@pytest.mark.parametrize("name", [*sorted(PLANS.keys() - {"settle_between"}), "next_due"])
async def test_sqlite_searches_and_never_scans(sqlite: SqlitePlace, name: str) -> None:
    session = await sqlite.source.connect()
    assert isinstance(session, SqliteSession)
    text = getattr(session._statements, name)
    await session.close()
    connection = sqlite3.connect(sqlite.path)
    steps = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {text}", (None,) * text.count("?"))]
    connection.close()
    outbox = [step for step in steps if sqlite.outbox in step]
    assert outbox, steps
    for step in outbox:
        assert step.startswith("SEARCH") or (f"USING INDEX {sqlite.outbox}_due" in step), steps
    assert not any("TEMP B-TREE" in step for step in steps if name.startswith("pending")), steps


async def test_many_receipts_are_checked_at_once(place: Place, session: Session) -> None:
    added = place.add(*(row(key=f"k{i}") for i in range(500)))
    began = time.perf_counter()
    held = await session.held([(i, i) for i in range(1, 128_000, 2)])
    assert [(int(p), i) for p, i in held] == [pair for pair in added if pair[0] % 2 == 1]
    assert time.perf_counter() - began < 5
