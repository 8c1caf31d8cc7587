"""Wake-up on PostgreSQL: quick when something comes, nearly free when nothing does, free for busy writers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg

from fencepost.databases.postgresql import PostgresqlSession
from fencepost.outbox import Outbox
from fencepost.ports import Lane, Session
from fencepost.sql.watch import BUSY_ROWS
from tests.databases.places import LANE, PostgresqlPlace, pairs, row


@asynccontextmanager
async def connected(place: PostgresqlPlace) -> AsyncIterator[PostgresqlSession]:
    session = await place.source.connect()
    assert isinstance(session, PostgresqlSession)
    yield session
    await session.close()


def asleep(place: PostgresqlPlace) -> list[tuple[object, ...]]:
    return place.ask(f"SELECT relay, lane, first_slot, last_slot, asleep FROM {place.options.prefix}lane")


def add(place: PostgresqlPlace) -> str:
    """A message as an application adds it, in the background of the relay; its id."""
    outbox = Outbox(schema=place.options.schema, prefix=place.options.prefix)
    with psycopg.connect(place.options.url) as connection:
        return outbox.add(connection, "orders", {"total": 10}, key="order-1").id


async def fall_asleep(place: PostgresqlPlace, session: Session, lane: Lane = LANE) -> None:
    for _ in range(30):
        assert await session.pending(lane, 10) == []
        await session.wait(lane, 0.3)
        if any(told for *_, told in asleep(place)):
            return
    raise AssertionError("it never slept")


def count_statements(session: PostgresqlSession) -> Callable[[], int]:
    seen: list[str] = []
    for link in (session._reader, session._writer):
        link.connection.add_query_logger(lambda record: seen.append(record.query))
    return lambda: len(seen)


async def test_it_looks_often_then_asks_to_be_woken(postgresql: PostgresqlPlace) -> None:
    async with connected(postgresql) as session:
        began = time.monotonic()
        for _ in range(5):
            assert await session.pending(LANE, 10) == []
            await session.wait(LANE, 5)
        assert time.monotonic() - began < 1
        assert asleep(postgresql) == []
        await session.wait(LANE, 5)
        assert asleep(postgresql) == [("orders", 0, 0, 255, True)]
    assert asleep(postgresql) == [("orders", 0, 0, 255, False)]


async def test_a_notification_wakes_it(postgresql: PostgresqlPlace) -> None:
    async with connected(postgresql) as session:
        await fall_asleep(postgresql, session)
        for _ in range(8):  # until the waits are long
            await session.wait(LANE, 0.2)
        waiting = asyncio.ensure_future(session.wait(LANE, 30))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        added = await asyncio.to_thread(add, postgresql)
        await asyncio.wait_for(waiting, 2)
        assert [m.id for m in await session.pending(LANE, 10)] == [added]


async def test_a_notification_that_came_before_the_wait_counts(postgresql: PostgresqlPlace) -> None:
    async with connected(postgresql) as session:
        await fall_asleep(postgresql, session)
        for _ in range(8):
            await session.wait(LANE, 0.2)
        assert await session.pending(LANE, 10) == []
        await asyncio.to_thread(add, postgresql)
        await asyncio.sleep(0.2)
        await asyncio.wait_for(session.wait(LANE, 30), 1)


async def test_a_silent_commit_is_found_by_looking(postgresql: PostgresqlPlace) -> None:
    """The writer saw the relay awake, and commits when it is asleep: nobody notifies."""
    writer = postgresql.begin()
    added = writer.insert(row())
    async with connected(postgresql) as session:
        await fall_asleep(postgresql, session)
        began = time.monotonic()
        writer.commit()
        while not (found := await session.pending(LANE, 10)):
            await session.wait(LANE, 0.5)
        assert pairs(found) == added
        assert time.monotonic() - began < 2


async def test_idle_costs_less_than_a_statement_a_second(postgresql: PostgresqlPlace) -> None:
    """D10: in the steady state each wait lasts as long as it may and says nothing."""
    async with connected(postgresql) as session:
        await fall_asleep(postgresql, session)
        for _ in range(8):
            await session.wait(LANE, 0.2)
        statements = count_statements(session)
        began = time.monotonic()
        for _ in range(3):
            assert await session.pending(LANE, 10) == []
            await session.wait(LANE, 1.0)
        assert statements() == 3
        assert time.monotonic() - began >= 3.0


async def test_many_messages_end_the_sleep_and_spare_the_writers(postgresql: PostgresqlPlace) -> None:
    async with connected(postgresql) as session:
        await fall_asleep(postgresql, session)
        postgresql.add(*(row(key=f"k{i}") for i in range(BUSY_ROWS)))
        rows = await session.pending(LANE, 1000)
        assert await session.settle(pairs(rows)) == BUSY_ROWS
        assert asleep(postgresql) == [("orders", 0, 0, 255, False)]


async def test_a_session_that_died_asleep_is_corrected_by_the_next(postgresql: PostgresqlPlace) -> None:
    async with connected(postgresql) as session:
        await fall_asleep(postgresql, session)
        for link in (session._reader, session._writer):
            link.connection.terminate()
    assert asleep(postgresql) == [("orders", 0, 0, 255, True)]
    async with connected(postgresql) as session:
        postgresql.add(*(row(key=f"k{i}") for i in range(BUSY_ROWS)))
        rows = await session.pending(LANE, 1000)
        await session.settle(pairs(rows))
        assert asleep(postgresql) == [("orders", 0, 0, 255, False)]


async def test_each_lane_sleeps_for_itself(postgresql: PostgresqlPlace) -> None:
    lower, upper = Lane("orders", 0, 0, 127), Lane("orders", 1, 128, 255)
    async with connected(postgresql) as first, connected(postgresql) as second:
        await fall_asleep(postgresql, first, lower)
        await second.pending(upper, 10)
        await second.wait(upper, 0.1)
        assert asleep(postgresql) == [("orders", 0, 0, 127, True)]
        for _ in range(7):
            await second.wait(upper, 0.1)
        assert sorted(asleep(postgresql)) == [("orders", 0, 0, 127, True), ("orders", 1, 128, 255, True)]


async def test_to_say_so_waits_for_no_disk(postgresql: PostgresqlPlace) -> None:
    """And the next statement, which settles, is durable again."""
    async with connected(postgresql) as session:
        await fall_asleep(postgresql, session)
        shown = await session._writer.connection.fetchval("SHOW synchronous_commit")
        assert shown == postgresql.ask("SHOW synchronous_commit")[0][0] == "on"
        assert "set_config('synchronous_commit', 'off', true)" in session._statements.set_asleep
