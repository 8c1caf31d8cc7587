"""Transactions that stay open, and sequences with ways of their own: nothing is held up, nothing is skipped."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise

import psycopg
import pytest

from fencepost.errors import ConfigurationError
from fencepost.events import Settled
from fencepost.outbox import NewMessage, Outbox
from fencepost.ports import DatabaseOptions
from fencepost.relay.lane import LaneOptions
from fencepost.testing.relaying import Relayed, relayed
from tests.databases.places import LANE, Place, PostgresqlPlace, pairs, row

OPTIONS = LaneOptions(batch=200, poll_s=0.2)
SOON_S = 10.0
"""Much longer than it takes, much shorter than any of the transactions here would stay open."""


@contextmanager
def writing(url: str, *texts: str) -> Iterator[psycopg.Connection]:
    """A transaction that has written something and stays open while the block lasts; it is rolled back."""
    with closing(psycopg.connect(url)) as connection:
        for text in texts:
            connection.execute(text.encode())
        yield connection
        connection.rollback()


def add(place: Place, key: str) -> str:
    with psycopg.connect(place.options.url) as connection:
        return Outbox(prefix=place.options.prefix).add(connection, "orders", {}, key=key).id


async def arrived(relay: Relayed, count: int) -> None:
    """Wait until readers see so many messages."""
    await relay.until(lambda: len(relay.ids("orders")) >= count, SOON_S)
    assert len(relay.ids("orders")) == count


def remembered(relay: Relayed) -> int:
    """How many rows the lane still has something to say of."""
    assert relay.run is not None
    order, known = relay.run._order, relay.run._known
    return len(order._in_hand | order._let_go) + len(known._rows)


async def test_b3_a_write_transaction_is_open_in_another_database_of_the_server(
    postgresql: PostgresqlPlace, fresh_database: str
) -> None:
    with writing(fresh_database, "CREATE TABLE theirs (id int)", "INSERT INTO theirs VALUES (1)"):
        async with relayed(postgresql.source, LANE, OPTIONS) as relay:
            added = [await asyncio.to_thread(add, postgresql, f"key-{n % 3}") for n in range(20)]
            await arrived(relay, 20)
    assert relay.ids("orders") == added


async def test_b3_a_write_transaction_is_open_in_this_database(postgresql: PostgresqlPlace) -> None:
    """In tables of its own, and with an entity of the outbox in its hands."""
    other = f"{postgresql.options.prefix}theirs"
    with writing(postgresql.options.url, f"CREATE TABLE {other} (id int)") as theirs:
        Outbox(prefix=postgresql.options.prefix).add(theirs, "orders", {}, key="theirs")
        async with relayed(postgresql.source, LANE, OPTIONS) as relay:
            added = [await asyncio.to_thread(add, postgresql, f"key-{n % 3}") for n in range(20)]
            await arrived(relay, 20)
    assert relay.ids("orders") == added


@pytest.mark.parametrize("increment", [1, 3])
async def test_b10_a_transaction_stays_open_while_thousands_pass(postgresql: PostgresqlPlace, increment: int) -> None:
    """It has the lowest positions, some in the middle, and commits last; every third number is drawn, or every one."""
    sequence = f"{postgresql.outbox}_seq_seq"
    postgresql.ask(f"ALTER SEQUENCE {sequence} INCREMENT BY {increment}")
    late = postgresql.begin()
    held_back = late.insert(row(key="late"))
    async with relayed(postgresql.source, LANE, OPTIONS) as relay:
        passed: list[tuple[int, str]] = []
        for _ in range(10):
            passed += postgresql.add(*(row(key=f"k{n}") for n in range(300)))
            held_back += late.insert(row(key="late"))
            await arrived(relay, len(passed))
        assert {b - a for (a, _), (b, _) in pairwise(passed)} <= {increment, 2 * increment}
        assert remembered(relay) <= 2 * OPTIONS.batch, "nothing of what has passed"
        late.commit()
        await arrived(relay, len(passed) + len(held_back))
    assert relay.ids("orders") == [id_ for _, id_ in passed + held_back]
    assert postgresql.ask(f"SELECT count(*) FROM {postgresql.outbox}") == [(0,)]


async def test_b10_a_reserved_position_is_passed_whatever_the_increment(postgresql: PostgresqlPlace) -> None:
    postgresql.ask(f"ALTER SEQUENCE {postgresql.outbox}_seq_seq INCREMENT BY 3")
    session = await postgresql.source.connect()
    assert await session.reserve(1000)
    await session.close()
    assert postgresql.add(row())[0][0] > 1000


@pytest.mark.parametrize("setting", ["CACHE 50", "INCREMENT BY -1", "CYCLE"])
async def test_b10_a_sequence_that_would_lose_the_order_is_refused(postgresql: PostgresqlPlace, setting: str) -> None:
    postgresql.ask(f"ALTER SEQUENCE {postgresql.outbox}_seq_seq {setting}")
    with pytest.raises(ConfigurationError, match="_seq_seq does not hand out") as caught:
        await postgresql.source.connect()
    postgresql.ask(caught.value.remedy)
    await (await postgresql.source.connect()).close()


async def test_b10_what_sessions_have_drawn_in_advance_is_not_skipped(postgresql: PostgresqlPlace) -> None:
    """Somebody changed it while the relay ran: each session hands out numbers of its own, in any order of commits."""
    session = await postgresql.source.connect()
    postgresql.ask(f"ALTER SEQUENCE {postgresql.outbox}_seq_seq CACHE 50")
    transactions = [postgresql.begin() for _ in range(4)]
    added = [transaction.insert(row(key=f"k{n}")) for n, transaction in enumerate(transactions)]
    positions = [position for ((position, _),) in added]
    assert positions[-1] - positions[0] >= 150
    for transaction, rows in reversed(list(zip(transactions, added, strict=True))):
        transaction.commit()
        assert pairs(await session.pending(LANE, 10)) == rows
        assert await session.settle(rows) == 1
    await session.close()


async def test_d12_what_is_settled_is_removed_under_constant_load_and_writers_do_not_deadlock(
    fresh_database: str,
) -> None:
    """In steps of one batch at most, by six writers who take several entities each, and a relay."""
    place = PostgresqlPlace(DatabaseOptions(url=fresh_database))
    await place.schema.apply()
    options = replace(OPTIONS, batch=50)
    async with relayed(place.source, LANE, options) as relay:
        written = await asyncio.gather(*(asyncio.to_thread(write, place, name) for name in "abcdef"))
        await relay.until(lambda: len(relay.ids("orders")) >= sum(written), 30.0)
        await relay.until(lambda: place.ask(f"SELECT count(*) FROM {place.outbox}") == [(0,)], SOON_S)
    settled = relay.told(Settled)
    assert 0 < max(event.expected for event in settled) <= options.batch
    assert sum(event.rows for event in settled) == sum(written) == len(relay.ids("orders"))
    assert place.ask("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [(0,)]


def write(place: Place, name: str) -> int:
    """Commit, one transaction after the other; how many messages."""
    outbox, chance = Outbox(), random.Random(name)
    with closing(psycopg.connect(place.options.url)) as connection:
        for _ in range(40):
            keys = chance.sample("123456", 3)
            outbox.add_all(connection, [NewMessage("orders", 0, key=key) for key in keys])
            connection.commit()
    return 120
