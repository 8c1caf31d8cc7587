"""Why commit order is key order: what concurrent writers can and cannot do to each other, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from fencepost.errors import VersionConflict
from fencepost.message import Message
from fencepost.outbox import AsyncOutbox, NewMessage
from fencepost.sql.outbox import Versions
from tests.drivers.connections import DEADLINE_S, Add, Connect, add_batch, add_one, begun, blocked
from tests.drivers.ways import Place

BOTH = pytest.mark.parametrize("versions", ["counter", "position"])


async def add_given(outbox: AsyncOutbox, tx: Any, key: str) -> Message:
    """With a version of the caller's own, which only grows."""
    add_given.last = getattr(add_given, "last", 0) + 1  # type: ignore[attr-defined]
    return await outbox.add(tx, "orders", 0, key=key, version=add_given.last)  # type: ignore[attr-defined]


def seq_of(place: Place, message: Message) -> int:
    return next(int(row["seq"]) for row in place.rows() if row["id"] == message.id)


@BOTH
@pytest.mark.parametrize("add", [add_one, add_given, add_batch])
async def test_the_position_is_drawn_when_the_lock_is_held(
    postgresql: Place, connect: Connect, versions: Versions, add: Add
) -> None:
    """A writer that waits for its entity has no position yet: one drawn meanwhile by somebody else is smaller."""
    outbox = AsyncOutbox(versions=versions, **postgresql.names)
    first, second, third, watcher = [await connect() for _ in range(4)]
    one = await begun(first)
    await add(outbox, first, "1")
    two = await begun(second)
    waiting = asyncio.create_task(add(outbox, second, "1"))
    await blocked(watcher, second)
    async with third.transaction():
        meanwhile = await add(outbox, third, "another")
    await one.commit()
    late = await asyncio.wait_for(waiting, DEADLINE_S)
    await two.commit()
    assert seq_of(postgresql, late) > seq_of(postgresql, meanwhile)


@BOTH
async def test_version_order_though_the_transaction_began_first(
    postgresql: Place, connect: Connect, versions: Versions
) -> None:
    """B2: A has its transaction id before B, and changes the entity after B."""
    outbox = AsyncOutbox(versions=versions, **postgresql.names)
    a, b = await connect(), await connect()
    transaction = await begun(a)
    await a.execute(f"INSERT INTO {postgresql.business} VALUES (1, 1)")
    before = await a.fetchval("SELECT pg_current_xact_id()::text::bigint")
    async with b.transaction():
        from_b = await outbox.add(b, "orders", "B", key="1")
        assert await b.fetchval("SELECT pg_current_xact_id()::text::bigint") > before
    from_a = await outbox.add(a, "orders", "A", key="1")
    await transaction.commit()
    assert [row["id"] for row in postgresql.rows()] == [from_b.id, from_a.id]
    assert from_b.version is not None
    assert from_a.version is not None
    assert from_b.version < from_a.version


@BOTH
async def test_entities_do_not_wait_for_each_other(postgresql: Place, connect: Connect, versions: Versions) -> None:
    """B1: the smaller position may commit last where the entities differ."""
    outbox = AsyncOutbox(versions=versions, **postgresql.names)
    first, second = await connect(), await connect()
    transaction = await begun(first)
    await outbox.add(first, "orders", 0, key="1")
    async with asyncio.timeout(DEADLINE_S), second.transaction():
        await outbox.add(second, "orders", 0, key="2")
        await outbox.add(second, "invoices", 0, key="1")
        await outbox.add(second, "orders", 0)
    assert len(postgresql.rows()) == 3
    await transaction.commit()
    assert len(postgresql.rows()) == 4


async def watch(watcher: Any, postgresql: Place, done: asyncio.Event) -> int:
    """Look at the outbox again and again: what a key has more than at the last look stands behind what it had."""
    table = f'"{postgresql.schema}"."{postgresql.prefix}outbox"'
    before: dict[str, list[int]] = {}
    changes = 0
    while not done.is_set():
        for key, now in await watcher.fetch(f"SELECT key, array_agg(seq ORDER BY seq) FROM {table} GROUP BY key"):
            had = before.get(key, [])
            assert now[: len(had)] == had, key
            changes += now != had
            before[key] = now
        await asyncio.sleep(0.005)
    return changes


class Unlucky(Exception):
    """A writer rolls back."""


async def write_some(outbox: AsyncOutbox, connection: Any, chance: random.Random, committed: list[Message]) -> None:
    for _ in range(12):
        keys = [f"k{chance.randrange(20)}" for _ in range(chance.choice((1, 1, 1, 3)))]
        new = [NewMessage("orders", 0, key=key) for key in keys]
        try:
            async with connection.transaction():
                if len(new) == 1:
                    written = [await outbox.add(connection, "orders", 0, key=keys[0])]
                else:
                    written = await outbox.add_all(connection, new)
                await asyncio.sleep(chance.random() * 0.004)
                if chance.random() < 0.25:
                    raise Unlucky
        except Unlucky:
            continue
        committed += written


@BOTH
async def test_many_writers_few_keys(postgresql: Place, connect: Connect, versions: Versions) -> None:
    """B5: 64 writers, 20 keys, a quarter of the transactions rolled back."""
    outbox = AsyncOutbox(versions=versions, **postgresql.names)
    connections = [await connect() for _ in range(64)]
    committed: list[Message] = []
    done = asyncio.Event()
    watching = asyncio.create_task(watch(await connect(), postgresql, done))
    writers = [write_some(outbox, one, random.Random(n), committed) for n, one in enumerate(connections)]
    await asyncio.wait_for(asyncio.gather(*writers), 90)
    done.set()
    assert await watching > 50

    rows = postgresql.rows()
    assert len(committed) > 400
    assert {row["id"] for row in rows} == {message.id for message in committed}
    said = {message.id: message.version for message in committed}
    by_key: dict[str, list[Any]] = {}
    for row in rows:
        by_key.setdefault(row["key"], []).append(row)
    assert len(by_key) == 20
    for key, its in by_key.items():
        if versions == "counter":
            assert [row["version"] for row in its] == list(range(1, len(its) + 1)), key
            assert [said[row["id"]] for row in its] == [row["version"] for row in its]
        else:
            assert [said[row["id"]] for row in its] == [row["seq"] for row in its]


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
async def test_two_writers_with_the_same_version(postgresql: Place, connect: Connect, outcome: str) -> None:
    """The second waits for the first; it is in conflict only where the first commits."""
    outbox = AsyncOutbox(**postgresql.names)
    first, second, watcher = [await connect() for _ in range(3)]
    one, two = await begun(first), await begun(second)
    await outbox.add(first, "orders", "first", key="1", version=5)
    waiting = asyncio.create_task(outbox.add(second, "orders", "second", key="1", version=5))
    await blocked(watcher, second)
    if outcome == "rollback":
        await one.rollback()
        assert (await asyncio.wait_for(waiting, DEADLINE_S)).version == 5
    else:
        await one.commit()
        with pytest.raises(VersionConflict):
            await asyncio.wait_for(waiting, DEADLINE_S)
    await two.commit()
    winner = b'"second"' if outcome == "rollback" else b'"first"'
    assert [(row["payload"], row["version"]) for row in postgresql.rows()] == [(winner, 5)]


async def test_a_race_for_versions_has_one_winner_each(postgresql: Place, connect: Connect) -> None:
    outbox = AsyncOutbox(**postgresql.names)
    won: Counter[int] = Counter()

    async def race(connection: Any) -> None:
        for version in range(1, 21):
            try:
                async with connection.transaction():
                    await outbox.add(connection, "orders", 0, key="1", version=version)
            except VersionConflict:
                continue
            won[version] += 1

    async with asyncio.timeout(60):
        await asyncio.gather(*[race(await connect()) for _ in range(8)])
    assert set(won.values()) == {1}
    assert [row["version"] for row in postgresql.rows()] == sorted(won)
    assert 20 in won


async def crossing(
    connect: Connect, outbox: AsyncOutbox, batch: Callable[[list[str]], list[NewMessage]]
) -> list[object]:
    """Two batches with the same keys in opposite order meet at one in the middle, which a third writer holds first."""
    keys = [f"k{n:02}" for n in range(31)]
    first, second, third, watcher = [await connect() for _ in range(4)]
    held = await begun(third)
    await outbox.add(third, "orders", 0, key=keys[15])

    async def write(connection: Any, order: list[str]) -> None:
        async with connection.transaction():
            await outbox.add_all(connection, batch(order))

    forward = asyncio.create_task(write(first, keys))
    await blocked(watcher, first)
    backward = asyncio.create_task(write(second, keys[::-1]))
    await blocked(watcher, second)
    await held.commit()
    return list(await asyncio.wait_for(asyncio.gather(forward, backward, return_exceptions=True), DEADLINE_S))


@BOTH
async def test_batches_with_crossing_keys_do_not_deadlock(
    postgresql: Place, connect: Connect, versions: Versions
) -> None:
    outbox = AsyncOutbox(versions=versions, **postgresql.names)
    outcomes = await crossing(connect, outbox, lambda order: [NewMessage("orders", 0, key=key) for key in order])
    assert outcomes == [None, None]
    assert len(postgresql.rows()) == 2 * 31 + 1


async def test_given_versions_with_crossing_keys_do_not_deadlock(postgresql: Place, connect: Connect) -> None:
    outbox = AsyncOutbox(**postgresql.names)
    version = itertools.count(2)

    def batch(order: list[str]) -> list[NewMessage]:
        number = next(version)
        return [NewMessage("orders", 0, key=key, version=number) for key in order]

    assert await crossing(connect, outbox, batch) == [None, None]
    assert len(postgresql.rows()) == 2 * 31 + 1


@BOTH
async def test_single_messages_in_crossing_order_do_deadlock(
    postgresql: Place, connect: Connect, versions: Versions
) -> None:
    """What the sorted locks of a batch prevent does happen without them (so the tests above can see it)."""
    outbox = AsyncOutbox(versions=versions, **postgresql.names)
    first, second, watcher = [await connect() for _ in range(3)]
    one, two = await begun(first), await begun(second)
    await outbox.add(first, "orders", 0, key="1")
    await outbox.add(second, "orders", 0, key="2")
    crossing = asyncio.create_task(outbox.add(first, "orders", 0, key="2"))
    await blocked(watcher, first)
    outcomes = await asyncio.wait_for(
        asyncio.gather(crossing, outbox.add(second, "orders", 0, key="1"), return_exceptions=True), DEADLINE_S
    )
    assert [type(outcome) for outcome in outcomes].count(asyncpg.DeadlockDetectedError) == 1
    await one.rollback()
    await two.rollback()


@BOTH
async def test_one_lock_however_the_table_is_named(postgresql: Place, connect: Connect, versions: Versions) -> None:
    """A writer that finds the table by its search path waits for one that names the schema."""
    named = AsyncOutbox(versions=versions, **postgresql.names)
    found = AsyncOutbox(versions=versions, prefix=postgresql.prefix)
    first, second, watcher = [await connect() for _ in range(3)]
    await second.execute(f'SET search_path = "{postgresql.schema}"')
    one, two = await begun(first), await begun(second)
    await named.add(first, "orders", 0, key="1")
    waiting = asyncio.create_task(found.add(second, "orders", 0, key="1"))
    await blocked(watcher, second)
    await one.commit()
    await asyncio.wait_for(waiting, DEADLINE_S)
    await two.commit()
    assert len(postgresql.rows()) == 2


@BOTH
async def test_a_large_batch_stays_quick_when_its_plan_is_reused(
    postgresql: Place, connect: Connect, versions: Versions
) -> None:
    """A plan made for an unknown number of messages must not compare each one with each entity."""
    outbox = AsyncOutbox(versions=versions, **postgresql.names)
    connection = await connect()
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    new = [NewMessage("orders", 0, key=str(n % 3000)) for n in range(6000)]
    async with asyncio.timeout(DEADLINE_S), connection.transaction():
        await outbox.add_all(connection, new)
    assert len(postgresql.rows()) == 6000
