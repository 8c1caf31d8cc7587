"""Settled rows that stay: a read does not see them, a fall-back does not repeat them, and the leader purges them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace

import pytest

from fencepost.brokers import memory
from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases import mariadb as mariadb_plugin
from fencepost.databases.sqlite import SqliteSession
from fencepost.elections import memory as memory_leases
from fencepost.events import Event, NotPurged, Purged, Settled
from fencepost.ports import BrokerOptions, DatabaseOptions, LeaseOptions
from fencepost.relay import Relay, RelayOptions
from fencepost.sql.source import LOWEST
from fencepost.sql.tables import State
from fencepost.testing.relaying import new_server, relayed
from tests.databases.mariadb_kit import ask, mariadb_database
from tests.databases.places import LANE, Place, PostgresqlPlace, SqlitePlace, pairs, row
from tests.databases.test_long_outbox import SHORT, fill, fill_sqlite, pages_touched, steps, touched
from tests.databases.test_restored import OPTIONS, _copied_file

MANY = 100_000
SETTLED = int(State.SETTLED)
RETENTION_S = 0.3


async def marked(place: Place) -> Place:
    """The outbox of that place, made for settled rows that stay."""
    other = place.other(settle="mark")
    await other.schema.apply()
    return other


def settle_all(place: Place, ago: str) -> None:
    """As if all of them had been settled so long ago."""
    place.ask(f"UPDATE {place.outbox} SET state = {SETTLED}, settled_at = {ago} WHERE state = 0")


async def test_what_is_settled_costs_a_read_nothing(postgresql: PostgresqlPlace) -> None:
    """All of them stand below what may be published, and nobody has told the planner."""
    place = await marked(postgresql)
    assert isinstance(place, PostgresqlPlace)
    fill(place, MANY)
    settle_all(place, "now()")
    place.ask(f"VACUUM (INDEX_CLEANUP on) {place.outbox}")
    fill(place, 10)
    found = await touched(place) | {name: await pages_touched(place, name) for name in ("backlog",)}
    assert max(found.values()) <= 40, found


async def test_a_purge_looks_at_what_it_removes_only(postgresql: PostgresqlPlace) -> None:
    place = await marked(postgresql)
    assert isinstance(place, PostgresqlPlace)
    fill(place, SHORT)
    settle_all(place, "now()")
    fill(place, MANY)
    settle_all(place, "now() - interval '1 day' * random()")
    purger = await place.source.purger()  # type: ignore[attr-defined]
    plan = await purger._connection.fetch(f"EXPLAIN {purger._outbox.statements.purge}", 1_000_000, 1000)
    await purger.close()
    assert any(f"{place.outbox}_settled" in line for (line,) in plan), plan
    assert not any("Seq Scan on" in line or "Sort" in line for (line,) in plan), plan


async def test_in_sqlite_what_is_settled_costs_a_read_nothing(sqlite: SqlitePlace) -> None:
    place = await marked(sqlite)
    assert isinstance(place, SqlitePlace)
    fill_sqlite(place, SHORT)
    short = await steps(place, "pending")
    fill_sqlite(place, MANY)
    settle_all(place, "'2026-01-01 00:00:00.000000'")
    fill_sqlite(place, SHORT)
    assert await steps(place, "pending") <= short + 20
    session = await place.source.connect()
    assert isinstance(session, SqliteSession)
    purge, backlog = session._statements.purge, session._statements.backlog
    await session.close()
    with closing(sqlite3.connect(place.path)) as connection:
        for text in (purge, backlog):
            plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {text}", (None,) * text.count("?"))]
            assert not any(step == f"SCAN {place.outbox}" for step in plan), plan


@pytest.fixture
async def marked_mariadb(mariadb_url: str, fresh_name: str) -> AsyncIterator[DatabaseOptions]:
    """An outbox in MariaDB whose settled rows stay, in a database of its own."""
    with mariadb_database(mariadb_url, fresh_name) as url:
        options = DatabaseOptions(url=url, settle="mark")
        await mariadb_plugin.schema(options).apply()
        yield options


async def test_in_mariadb_what_is_settled_costs_a_read_nothing(marked_mariadb: DatabaseOptions) -> None:
    columns = "id, topic, type, slot, content_type, occurred_at, state, settled_at"
    for state, settled_at, count in ((SETTLED, "'2026-01-01'", 20_000), (0, "NULL", 10)):
        ask(
            marked_mariadb.url,
            f"INSERT INTO fencepost_outbox ({columns}) SELECT UUID(), 't', 'x', 0, 'a/b', UTC_TIMESTAMP(6), {state},"
            f" {settled_at} FROM seq_1_to_{count}",
        )
    session = await mariadb_plugin.source(marked_mariadb).connect()
    assert isinstance(session, mariadb_plugin.MariadbSession)
    assert len(await session.pending(LANE, 100)) == 10
    said, connection = session._statements, session._reader.connection
    for text, arguments in (
        (said.pending, (LOWEST, 100)),
        (said.below, (100_000, 100)),
        (said.oldest_settled, (0, 100)),
    ):
        before = await handler_reads(connection)
        await connection.rows(text, *arguments)
        assert await handler_reads(connection) - before <= 250, text
    await session.close()


async def handler_reads(connection: mariadb_plugin.connection.Connection) -> int:
    """How many rows, of tables or indexes, the server has looked at for this connection."""
    rows = await connection.rows("SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(value) for _, value in rows)


async def test_a15_settled_rows_that_come_back_are_recognised(place: Place) -> None:
    """A fall-back forgets that they were settled; the receipts do not, and settle them again."""
    place = await marked(place)
    added = place.add(*(row(key=f"k{n % 3}") for n in range(10)))
    server = new_server()
    async with relayed(place.source, LANE, OPTIONS, server) as relay:
        await relay.until(lambda: len(relay.ids("orders")) == 10)
    place.ask(f"UPDATE {place.outbox} SET state = 0, settled_at = NULL WHERE seq > %s", added[4][0])
    later = place.add(row(key="k0"))
    async with relayed(place.source, LANE, OPTIONS, server) as relay:
        await relay.until(lambda: len(relay.ids("orders")) > 10)
    assert relay.ids("orders") == [id_ for _, id_ in added + later]
    states = place.ask(f"SELECT DISTINCT state, settled_at IS NULL FROM {place.outbox}")
    assert [(int(state), bool(unsettled)) for state, unsettled in states] == [(SETTLED, False)]


async def test_a15_a_position_of_a_lost_history_is_another_message(
    sqlite: SqlitePlace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its row stands where the receipts name another id: it is published, and marked in its turn."""
    place = await marked(sqlite)
    server = new_server()
    restore = _copied_file(place, tmp_path_factory.mktemp("restored") / "restored.db")  # type: ignore[arg-type]
    lost = place.add(row(key="k1"))
    async with relayed(place.source, LANE, OPTIONS, server) as relay:
        await relay.until(lambda: len(relay.ids("orders")) == 1)
    restored = restore()
    other = restored.add(row(key="k2"))
    assert other[0][0] == lost[0][0]
    async with relayed(restored.source, LANE, OPTIONS, server) as relay:
        await relay.until(lambda: len(relay.ids("orders")) == 2)
    assert relay.ids("orders") == [lost[0][1], other[0][1]]
    assert restored.ask(f"SELECT state FROM {restored.outbox}") == [(SETTLED,)]


async def run_for_a_while(place: Place, events: list[Event], retention_s: float) -> None:
    """A relay that leads until something was purged, or was not."""
    url = f"memory://{SYSTEM_CLOCK.new_id()}"
    relay = Relay(
        place.source,
        memory.broker(BrokerOptions(url=url, source="/t")),
        memory_leases.lease_store(LeaseOptions(url=url)),
        LANE,
        "owner",
        RelayOptions(retention_s=retention_s, poll_s=0.05),
        events.append,
    )
    running = asyncio.ensure_future(relay.run())
    async with asyncio.timeout(30):
        while not {Settled} < {type(event) for event in events} & {Settled, Purged, NotPurged}:
            await asyncio.sleep(0.02)
    relay.stop()
    await running


async def test_the_leader_purges_what_is_old_enough_and_nothing_else(place: Place) -> None:
    """C7, D12: an hour-old row that waits stays beside it."""
    here = await marked(place)
    old = here.add(*(row(key=f"k{i}") for i in range(2_500)))
    settle_all(here, "'2026-01-01 00:00:00.000000'")
    here.add(row(topic="later", available_at=SYSTEM_CLOCK.now(), state=int(State.DELAYED)))
    here.ask(f"UPDATE {here.outbox} SET available_at = '2099-01-01 00:00:00.000000' WHERE topic = 'later'")
    young = here.add(row())
    events: list[Event] = []
    await run_for_a_while(here, events, 3_600.0)
    assert [event.rows for event in events if isinstance(event, Purged)] == [len(old)]
    rows = here.ask(f"SELECT topic, state FROM {here.outbox} ORDER BY seq")
    assert [tuple(found) for found in rows] == [("later", int(State.DELAYED)), ("orders", SETTLED)]
    assert here.ask(f"SELECT seq FROM {here.outbox} WHERE state = {SETTLED}") == [(young[0][0],)]


async def test_a_purge_that_cannot_be_done_is_told_and_the_lane_goes_on(sqlite: SqlitePlace) -> None:
    here = await marked(sqlite)
    here.add(row())
    here.ask(f"CREATE TRIGGER kept BEFORE DELETE ON {here.outbox} BEGIN SELECT RAISE(ABORT, 'kept for the law'); END")
    events: list[Event] = []
    await run_for_a_while(here, events, 0.0)
    (told,) = [event for event in events if isinstance(event, NotPurged)]
    assert "kept for the law" in told.cause
    assert here.ask(f"SELECT state FROM {here.outbox}") == [(SETTLED,)]


async def test_who_goes_back_to_deleting_reads_nothing_again(place: Place) -> None:
    here = await marked(place)
    added = here.add(row(key="a"), row(key="b"))
    session = await here.source.connect()
    await session.settle(added)
    await session.close()
    deleting = replace(here, options=replace(here.options, settle="delete"))
    later = deleting.add(row(key="c"))
    session = await deleting.source.connect()
    assert pairs(await session.pending(LANE, 10)) == later
    await session.close()
    assert (await deleting.source.backlog()).pending == 1
