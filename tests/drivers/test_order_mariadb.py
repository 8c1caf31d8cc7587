"""The same order on MariaDB, whatever the isolation of the application's transactions."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncmy
import pytest
import sqlalchemy as sa

from fencepost.errors import Contention, VersionConflict
from fencepost.message import Message
from fencepost.outbox import AsyncOutbox, NewMessage, Outbox
from fencepost.sql.faults import fault_of
from tests.drivers.connections import DEADLINE_S, add_batch, add_one
from tests.drivers.ways import Place, arguments_of

ISOLATION = pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
Open = Callable[..., Awaitable[Any]]


@pytest.fixture
async def connect(mariadb: Place) -> AsyncIterator[Open]:
    """Opens connections with a transaction begun, which are closed at the end."""
    async with AsyncExitStack() as stack:

        async def opened(isolation: str = "REPEATABLE READ") -> Any:
            connection = await asyncmy.connect(**arguments_of(mariadb.url))
            stack.callback(connection.close)
            async with connection.cursor() as cursor:
                await cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
            await connection.begin()
            return connection

        yield opened


async def blocked(watcher: Any, connection: Any) -> None:
    """Return when the connection waits for a row that somebody else has locked."""
    query = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id ="
    async with asyncio.timeout(DEADLINE_S), watcher.cursor() as cursor:
        while True:
            await cursor.execute(f"{query} {connection.thread_id()}")
            if await cursor.fetchone() == (1,):
                return
            await asyncio.sleep(0.12)  # who asks again within 0.1 s is told the same


async def add_given(outbox: AsyncOutbox, tx: Any, key: str) -> Message:
    """With a version of the caller's own, which only grows."""
    add_given.last = getattr(add_given, "last", 0) + 1  # type: ignore[attr-defined]
    return await outbox.add(tx, "orders", 0, key=key, version=add_given.last)  # type: ignore[attr-defined]


def seq_of(place: Place, message: Message) -> int:
    return next(int(row["seq"]) for row in place.rows() if row["id"] == message.id)


@ISOLATION
@pytest.mark.parametrize("add", [add_one, add_given, add_batch])
async def test_the_position_is_drawn_when_the_lock_is_held(
    mariadb: Place, connect: Open, isolation: str, add: Any
) -> None:
    """B2: who waits for his entity has no position yet, whatever he has read before."""
    outbox = AsyncOutbox(**mariadb.names)
    first, second, third, watcher = [await connect(isolation) for _ in range(4)]
    async with second.cursor() as cursor:
        await cursor.execute(f"SELECT * FROM {mariadb.business}")  # a snapshot, under REPEATABLE READ
    one = await add(outbox, first, "1")
    waiting = asyncio.create_task(add(outbox, second, "1"))
    await blocked(watcher, second)
    meanwhile = await add(outbox, third, "another")
    await third.commit()
    await first.commit()
    late = await asyncio.wait_for(waiting, DEADLINE_S)
    await second.commit()
    assert seq_of(mariadb, late) > seq_of(mariadb, meanwhile) > seq_of(mariadb, one)
    assert (one.version or 0) < (late.version or 0)


@ISOLATION
async def test_entities_do_not_wait_for_each_other(mariadb: Place, connect: Open, isolation: str) -> None:
    """B1: the smaller position may commit last where the entities differ, neighbours in the table too."""
    outbox = AsyncOutbox(**mariadb.names)
    first, second = await connect(isolation), await connect(isolation)
    await outbox.add(first, "orders", 0, key="5")
    async with asyncio.timeout(DEADLINE_S):
        for key in ("4", "6", "5 ", "50", "Ä"):
            if key.strip() == key:
                await outbox.add(second, "orders", 0, key=key)
        await outbox.add(second, "invoices", 0, key="5")
        await outbox.add(second, "orders", 0)
    await second.commit()
    assert len(mariadb.rows()) == 6
    await first.commit()
    assert len(mariadb.rows()) == 7


@ISOLATION
async def test_a_new_entity_that_is_rolled_back_costs_who_waits_at_most_a_repetition(
    mariadb: Place, connect: Open, isolation: str
) -> None:
    """InnoDB may let all who wait for a row that goes away lock its place, and then ends one of them: try again."""
    outbox = AsyncOutbox(**mariadb.names)
    first, second, third, watcher = [await connect(isolation) for _ in range(4)]
    refused: list[asyncmy.errors.OperationalError] = []

    async def write(connection: Any) -> None:
        try:
            await outbox.add(connection, "orders", 0, key="new")
        except asyncmy.errors.OperationalError as error:
            refused.append(error)
            await connection.rollback()
            await outbox.add(connection, "orders", 0, key="new")
        await connection.commit()

    await outbox.add(first, "orders", 0, key="new")
    waiting = []
    for connection in (second, third):
        waiting.append(asyncio.create_task(write(connection)))
        await blocked(watcher, connection)
    await first.rollback()
    await asyncio.wait_for(asyncio.gather(*waiting), DEADLINE_S)
    assert [row["version"] for row in mariadb.rows()] == [1, 2]
    assert len(refused) <= 1
    assert all(isinstance(fault_of(error, "here"), Contention) for error in refused)


@ISOLATION
async def test_many_writers_few_keys(mariadb: Place, connect: Open, isolation: str) -> None:
    """B5: 16 writers, 8 keys, a quarter of the transactions rolled back; no deadlock where the entities are known."""
    outbox = AsyncOutbox(**mariadb.names)
    with mariadb.engine().begin() as transaction:
        Outbox(**mariadb.names).add_all(transaction, [NewMessage("orders", 0, key=f"k{n}") for n in range(8)])
    earlier = {row["id"] for row in mariadb.rows()}
    committed: list[Message] = []

    async def write(connection: Any, chance: random.Random) -> None:
        for _ in range(8):
            keys = [f"k{chance.randrange(8)}" for _ in range(chance.choice((1, 1, 3)))]
            written = await outbox.add_all(connection, [NewMessage("orders", 0, key=key) for key in keys])
            await asyncio.sleep(chance.random() * 0.004)
            if chance.random() < 0.25:
                await connection.rollback()
            else:
                await connection.commit()
                committed.extend(written)

    writers = [write(await connect(isolation), random.Random(n)) for n in range(16)]
    await asyncio.wait_for(asyncio.gather(*writers), 90)
    rows = [row for row in mariadb.rows() if row["id"] not in earlier]
    assert {row["id"] for row in rows} == {message.id for message in committed}
    said = {message.id: message.version for message in committed}
    for key in {row["key"] for row in rows}:
        its = [row for row in rows if row["key"] == key]
        assert [row["version"] for row in its] == list(range(2, len(its) + 2)), key
        assert [said[row["id"]] for row in its] == [row["version"] for row in its]


async def test_a_race_for_versions_has_one_winner_each(mariadb: Place, connect: Open) -> None:
    outbox = AsyncOutbox(**mariadb.names)
    won: Counter[int] = Counter()

    async def race(connection: Any) -> None:
        for version in range(1, 9):
            try:
                await outbox.add(connection, "orders", 0, key="1", version=version)
            except VersionConflict:
                await connection.rollback()
                continue
            await connection.commit()
            won[version] += 1

    async with asyncio.timeout(60):
        await asyncio.gather(*[race(await connect()) for _ in range(6)])
    assert set(won.values()) == {1}
    assert [row["version"] for row in mariadb.rows()] == sorted(won)
    assert 8 in won


async def test_batches_with_crossing_keys_do_not_deadlock(mariadb: Place, connect: Open) -> None:
    """Two batches with the same keys in opposite order meet at one in the middle, which a third writer holds first."""
    outbox = AsyncOutbox(**mariadb.names)
    keys = [f"k{n:02}" for n in range(31)]
    first, second, third, watcher = [await connect() for _ in range(4)]
    await outbox.add(third, "orders", 0, key=keys[15])

    async def write(connection: Any, order: list[str]) -> None:
        await outbox.add_all(connection, [NewMessage("orders", 0, key=key) for key in order])
        await connection.commit()

    forward = asyncio.create_task(write(first, keys))
    await blocked(watcher, first)
    backward = asyncio.create_task(write(second, keys[::-1]))
    await blocked(watcher, second)
    await third.commit()
    await asyncio.wait_for(asyncio.gather(forward, backward), DEADLINE_S)
    assert len(mariadb.rows()) == 2 * 31 + 1


@pytest.mark.parametrize("count", [1, 3, 64, 65, 199])
def test_many_are_written_in_few_statements(mariadb: Place, count: int) -> None:
    """In the order given, whatever the length; large ones are not put together."""
    engine = sa.create_engine(mariadb.engine().url, poolclass=sa.NullPool, connect_args={"ssl_disabled": True})
    said: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda *call: said.append(call[2]))
    new = [NewMessage("t", n, key=f"k{n % 3}") for n in range(count)]
    with engine.begin() as connection:
        written = Outbox(**mariadb.names).add_all(connection, new)
    rows = mariadb.rows()
    assert [row["payload"] for row in rows] == [str(n).encode() for n in range(count)]
    assert [row["version"] for row in rows] == [message.version for message in written]
    assert [row["version"] for row in rows if row["key"] == "k0"] == list(range(1, (count + 2) // 3 + 1))
    assert len(said) <= 2 * 3 + count // 64 + 10


def test_large_messages_are_not_put_together(mariadb: Place) -> None:
    """A statement has an end: max_allowed_packet."""
    outbox = Outbox(**mariadb.names)
    large = [NewMessage("t", bytes(700_000), key="1") for _ in range(30)]
    with mariadb.engine().begin() as connection:
        outbox.add_all(connection, large)
    assert [len(row["payload"]) for row in mariadb.rows()] == [700_000] * 30
