"""What the database in memory does beyond the rules: the trouble that tests make with it."""

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases import memory
from fencepost.databases.memory import MemoryDatabase, MemorySession
from fencepost.errors import (
    ConfigurationError,
    ConnectionLost,
    Contention,
    DeadlineExceeded,
    MessageRefused,
    NoTransaction,
    Unavailable,
    VersionConflict,
)
from fencepost.message import Message
from fencepost.ports import DatabaseOptions, Lane

LANE = Lane("orders")
_numbers = itertools.count()


@pytest.fixture
def database() -> Iterator[MemoryDatabase]:
    url = f"memory://database-{next(_numbers)}"
    yield memory.database(url)
    memory.forget(url)


async def connect(database: MemoryDatabase, timeout_s: float = 5.0) -> MemorySession:
    return await memory.source(DatabaseOptions(url=database.url, timeout_s=timeout_s)).connect()


def message(key: str | None = "k") -> Message:
    return Message(id=SYSTEM_CLOCK.new_id(), topic="t", payload=b"{}", occurred_at=SYSTEM_CLOCK.now(), key=key)


def add(database: MemoryDatabase, *keys: str | None) -> list[Message]:
    with database.transaction() as transaction:
        return [transaction.add(message(key)) for key in keys]


def ids(database: MemoryDatabase) -> list[str]:
    return [row.message.id for row in database.rows]


# -- sharing -----------------------------------------------------------------------------------------------------------


def test_one_url_is_one_database_and_each_schema_and_prefix_has_its_outbox(database: MemoryDatabase) -> None:
    assert memory.database(database.url) is database
    assert memory.database(database.url, prefix="other_") is not database
    assert memory.database(database.url, schema="other") is not database
    assert memory.database(f"{database.url}-2") is not database


async def test_a_forgotten_database_is_gone_with_its_sessions(database: MemoryDatabase) -> None:
    session = await connect(database)
    memory.forget(database.url)
    assert memory.database(database.url) is not database
    with pytest.raises(ConnectionLost):
        await session.pending(LANE, 1)


@pytest.mark.parametrize("url", ["memory://", "memory:", "sqlite:///x", "orders"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="memory://NAME"):
        memory.database(url)


# -- transactions ------------------------------------------------------------------------------------------------------


def test_a_transaction_that_has_ended_takes_nothing(database: MemoryDatabase) -> None:
    transaction = database.transaction()
    transaction.commit()
    with pytest.raises(NoTransaction):
        transaction.add(message())
    with pytest.raises(NoTransaction):
        transaction.commit()


def test_versions_are_counted_and_a_rollback_gives_them_back(database: MemoryDatabase) -> None:
    assert [m.version for m in add(database, "a", "b", "a", None)] == [1, 1, 2, None]
    transaction = database.transaction()
    assert transaction.add(message("a")).version == 3
    transaction.rollback()
    assert add(database, "a")[0].version == 3
    assert [row.message.position for row in database.rows] == [1, 2, 3, 4, 6]


def test_an_own_version_must_be_newer(database: MemoryDatabase) -> None:
    with database.transaction() as transaction:
        transaction.add(replace(message(), version=7))
        with pytest.raises(VersionConflict):
            transaction.add(replace(message(), version=7))
    assert add(database, "k")[0].version == 8


def test_an_entity_belongs_to_one_open_transaction(database: MemoryDatabase) -> None:
    first, second = database.transaction(), database.transaction()
    first.add(message("a"))
    second.add(message("b"))
    with pytest.raises(Contention):
        second.add(message("a"))
    first.commit()
    assert second.add(message("a")).version == 2


def test_what_no_broker_could_take_is_refused(database: MemoryDatabase) -> None:
    with pytest.raises(MessageRefused), database.transaction() as transaction:
        transaction.add(replace(message(), topic="not a topic"))
    assert database.rows == []


# -- trouble -----------------------------------------------------------------------------------------------------------


async def test_a_fall_back_forgets_settles_and_hands_positions_out_again(database: MemoryDatabase) -> None:
    """A15"""
    (first,) = add(database, "a")
    snapshot = database.snapshot()
    (second,) = add(database, "b")
    session = await connect(database)
    await session.settle([(1, first.id), (2, second.id)])
    assert database.rows == []
    assert database.settled == [(1, first.id), (2, second.id)]
    database.fall_back(snapshot)
    with pytest.raises(ConnectionLost):
        await session.pending(LANE, 1)
    (third,) = add(database, "c")
    assert [(row.message.position, row.message.id) for row in database.rows] == [(1, first.id), (2, third.id)]
    database.fall_back(snapshot)  # a snapshot is not used up
    assert ids(database) == [first.id]


async def test_a_cut_ends_sessions_and_rolls_open_transactions_back(database: MemoryDatabase) -> None:
    session, transaction = await connect(database), database.transaction()
    transaction.add(message())
    database.cut()
    assert database.sessions == []
    with pytest.raises(ConnectionLost):
        await session.settle([])
    with pytest.raises(ConnectionLost):
        transaction.commit()
    assert database.rows == []
    assert len(await (await connect(database)).pending(LANE, 1)) == 0


async def test_a_paused_database_answers_when_it_goes_on(database: MemoryDatabase) -> None:
    add(database, "a")
    session = await connect(database)
    database.gate.pause()
    reading = asyncio.ensure_future(session.pending(LANE, 1))
    done, _ = await asyncio.wait([reading], timeout=0.05)
    assert not done
    database.gate.resume()
    assert len(await reading) == 1


async def test_a_paused_database_ends_the_session_at_its_deadline(database: MemoryDatabase) -> None:
    """D4"""
    session = await connect(database, timeout_s=0.02)
    database.gate.pause()
    with pytest.raises(DeadlineExceeded):
        await session.pending(LANE, 1)
    database.gate.resume()
    with pytest.raises(ConnectionLost):
        await session.pending(LANE, 1)


async def test_closing_ends_a_call_of_a_paused_database(database: MemoryDatabase) -> None:
    session = await connect(database)
    database.gate.pause()
    reading = asyncio.ensure_future(session.pending(LANE, 1))
    await asyncio.sleep(0)
    await session.close()
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(reading, 1.0)


async def test_calls_fail_as_often_as_ordered_and_only_those(database: MemoryDatabase) -> None:
    """A6"""
    (m,) = add(database, "a")
    session = await connect(database)
    database.gate.fail_next(2, Contention("deadlock"), call="settle")
    assert len(await session.pending(LANE, 1)) == 1
    for _ in range(2):
        with pytest.raises(Contention):
            await session.settle([(1, m.id)])
    assert ids(database) == [m.id]
    assert await session.settle([(1, m.id)]) == 1


async def test_connecting_can_be_refused(database: MemoryDatabase) -> None:
    database.gate.fail_next(1, Unavailable("starting up"), call="connect")
    with pytest.raises(Unavailable):
        await connect(database)
    await connect(database)


async def test_an_answer_can_be_lost_after_the_effect(database: MemoryDatabase) -> None:
    (m,) = add(database, "a")
    session = await connect(database)
    database.gate.lose_answers(1, call="settle")
    with pytest.raises(ConnectionLost):
        await session.settle([(1, m.id)])
    assert database.rows == []
    with pytest.raises(ConnectionLost):
        await session.pending(LANE, 1)


async def test_a_cut_after_the_effect_loses_the_answer(database: MemoryDatabase) -> None:
    (m,) = add(database, "a")
    session = await connect(database)
    settling = asyncio.ensure_future(session.settle([(1, m.id)]))
    while database.rows:
        await asyncio.sleep(0)
    database.cut()
    with pytest.raises(ConnectionLost):
        await settling


async def test_calls_take_as_long_as_ordered(database: MemoryDatabase) -> None:
    session = await connect(database)
    database.gate.latency_s = 0.05
    started = SYSTEM_CLOCK.monotonic()
    await session.pending(LANE, 1)
    assert SYSTEM_CLOCK.monotonic() - started >= 0.05


class FixedClock(type(SYSTEM_CLOCK)):  # type: ignore[misc]
    """A clock that shows what it is told."""

    moment = SYSTEM_CLOCK.now()

    def now(self) -> object:
        return self.moment


async def test_the_databases_own_clock_says_what_is_due() -> None:
    url, clock = f"memory://database-{next(_numbers)}", FixedClock()
    database = memory.database(url, clock=clock)
    with database.transaction() as transaction:
        transaction.add(replace(message(), available_at=clock.moment + timedelta(hours=1)))
    session = await connect(database)
    assert await session.release_due(10) == 3600.0
    clock.moment += timedelta(hours=1)
    assert await session.release_due(10) is None
    assert len(await session.pending(LANE, 10)) == 1
    memory.forget(url)
