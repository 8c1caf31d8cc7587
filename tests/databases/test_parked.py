"""Parked messages that are tried again or given up, as any driver runs it, and as a relay then reads them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from fencepost.drivers import psycopg as psycopg_driver
from fencepost.drivers import pymysql as pymysql_driver
from fencepost.drivers import sqlite3 as sqlite3_driver
from fencepost.errors import SchemaMissing
from fencepost.flows import run
from fencepost.message import Stored
from fencepost.ports import Session
from fencepost.ports.parking import RETRIED
from fencepost.sql.parked import ParkedMessages
from fencepost.sql.transaction import Blocking
from tests.databases.mariadb_kit import connected
from tests.databases.places import LANE, Place, PostgresqlPlace, row

Flow = Callable[..., Any]


@contextmanager
def joined(place: Place) -> Iterator[Blocking]:
    """A transaction of a blocking driver, committed at its end."""
    if place.name == "sqlite":
        with closing(sqlite3.connect(place.options.url.removeprefix("sqlite:///"))) as file, file:
            yield blocking(sqlite3_driver.join(file))
        return
    if place.name == "mysql":
        with closing(connected(place.options.url, autocommit=False)) as client:
            yield blocking(pymysql_driver.join(client))
            client.commit()
        return
    with psycopg.connect(place.options.url) as connection:
        yield blocking(psycopg_driver.join(connection))


def blocking(found: object) -> Blocking:
    assert isinstance(found, Blocking)
    return found


def parked(place: Place) -> ParkedMessages:
    return ParkedMessages(place.options.schema, place.options.prefix)


def retry(place: Place, *ids: str, keep_versions: bool = False) -> list[str]:
    with joined(place) as tx:
        return run(parked(place).retry(tx.dialect, ids, keep_versions=keep_versions), tx.execute)


def counted(place: Place, version: int) -> None:
    """The key of ``row`` has had so many messages."""
    key = "`key`" if place.name == "mysql" else "key"
    table = f"{place.options.prefix}entity"
    place.ask(f"INSERT INTO {table} (topic, {key}, version) VALUES ('orders', 'order-1', {version})")


async def park(session: Session, place: Place, *given: dict[str, Any]) -> list[Stored]:
    """Add messages and park them."""
    before = {message.id for message in await session.pending(LANE, 1000)}
    place.add(*given)
    rows = [message for message in await session.pending(LANE, 1000) if message.id not in before]
    await session.failed([(message, "once") for message in rows])
    await session.park([(message, "too large") for message in rows])
    return rows


async def test_a_retried_message_is_the_same_but_for_its_place_and_its_mark(place: Place, session: Session) -> None:
    (old,) = await park(
        session, place, row(version=3, headers='{"trace":"a","fencepost-retried":"4"}', payload=b"\xff")
    )
    place.add(row(version=4))
    counted(place, 4)
    assert retry(place, old.id) == [old.id]
    newer, again = await session.pending(LANE, 10)
    assert newer.version == 4
    headers = {"trace": "a", RETRIED: "5"}
    assert again._replace(position=0) == old._replace(position=0, attempts=0, headers=headers, version=5)
    assert place.ask(f"SELECT count(*) FROM {place.options.prefix}parked") == [(0,)]
    assert place.ask(f"SELECT version FROM {place.options.prefix}entity") == [(5,)]


@pytest.mark.parametrize("is_counted", [True, False])
async def test_a_version_is_kept_where_that_is_wanted_or_nobody_counts(
    place: Place, session: Session, is_counted: bool
) -> None:
    (old,) = await park(session, place, row(version=3))
    if is_counted:
        counted(place, 4)
    retry(place, old.id, keep_versions=is_counted)
    assert [message.version for message in await session.pending(LANE, 10)] == [3]
    assert place.ask(f"SELECT version FROM {place.options.prefix}entity") == [(4,)] * is_counted


@pytest.mark.parametrize("kept", [True, False])
async def test_where_the_position_is_the_version_it_is_the_new_one_unless_kept(
    place: Place, session: Session, kept: bool
) -> None:
    (old,) = await park(session, place, row(version=None))
    (keyless,) = await park(session, place, row(version=None, key=None))
    assert old.version == old.position
    assert retry(place, old.id, keyless.id, keep_versions=kept) == [old.id, keyless.id]
    again, other = await session.pending(LANE, 10)
    assert (again.version, other.version) == (old.position if kept else again.position, None)
    assert int(again.position) > int(old.position)


async def test_they_go_in_the_order_given_behind_everything(place: Place, session: Session) -> None:
    messages = await park(session, place, *(row(version=n) for n in (1, 2, 3)))
    place.add(row(version=4))
    counted(place, 4)
    order = [messages[n].id for n in (2, 0)]
    assert retry(place, *order) == order
    again = list(await session.pending(LANE, 10))
    assert [message.version for message in again] == [4, 5, 6]
    assert [message.id for message in again[1:]] == order


async def test_a_retried_message_may_be_parked_and_retried_again(place: Place, session: Session) -> None:
    (old,) = await park(session, place, row())
    for times in ("1", "2"):
        retry(place, old.id)
        (again,) = await session.pending(LANE, 10)
        assert again.headers == {RETRIED: times}
        await session.park([(again, "still too large")])
    assert place.ask(f"SELECT reason FROM {place.options.prefix}parked") == [("still too large",)]


async def test_a_transaction_that_is_rolled_back_changes_nothing(place: Place, session: Session) -> None:
    (old,) = await park(session, place, row())

    def undone(flow: Flow) -> None:
        with joined(place) as tx:
            assert run(flow(tx.dialect, [old.id]), tx.execute) == [old.id]
            raise ZeroDivisionError

    for flow in (parked(place).retry, parked(place).discard):
        with pytest.raises(ZeroDivisionError):
            undone(flow)
    assert place.ask(f"SELECT count(*) FROM {place.options.prefix}parked") == [(1,)]
    assert list(await session.pending(LANE, 10)) == []


async def test_a_discarded_message_is_gone(place: Place, session: Session) -> None:
    one, two = await park(session, place, row(), row())
    with joined(place) as tx:
        assert run(parked(place).discard(tx.dialect, [two.id, two.id]), tx.execute) == [two.id]
    assert [str(found) for (found,) in place.ask(f"SELECT id FROM {place.options.prefix}parked")] == [one.id]


async def test_of_two_that_retry_at_once_one_does(postgresql: PostgresqlPlace) -> None:
    session = await postgresql.source.connect()
    (old,) = await park(session, postgresql, row())
    done: list[list[str]] = []
    with joined(postgresql) as tx:
        run(parked(postgresql).retry(tx.dialect, [old.id]), tx.execute)
        second = threading.Thread(target=lambda: done.append(retry(postgresql, old.id)))
        second.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        give_up = time.monotonic() + 30
        while postgresql.ask(waiting, f"%{postgresql.options.prefix}parked%") == [(0,)]:
            assert time.monotonic() < give_up, "the second one does not wait"
            await asyncio.sleep(0.02)
    second.join(30)
    assert done == [[]]
    assert len(await session.pending(LANE, 10)) == 1
    await session.close()


async def test_a_sleeping_relay_is_woken(postgresql: PostgresqlPlace) -> None:
    session = await postgresql.source.connect()
    (old,) = await park(session, postgresql, row())
    postgresql.ask(f"INSERT INTO {postgresql.options.prefix}lane VALUES ('orders', 0, 0, 255, true)")
    with psycopg.connect(postgresql.options.url, autocommit=True) as listener:
        listener.execute(f'LISTEN "fencepost:{postgresql.outbox}"'.encode())
        retry(postgresql, old.id)
        assert [told.channel for told in listener.notifies(timeout=10, stop_after=1)] == [
            f"fencepost:{postgresql.outbox}"
        ]
    await session.close()


def test_missing_tables(place: Place) -> None:
    other = place.other(prefix="nobody_")
    with pytest.raises(SchemaMissing, match="nobody_"):
        retry(other, "00000000-0000-0000-0000-000000000001")


def test_the_mark_can_be_no_header_of_an_application() -> None:
    from fencepost.errors import MessageRefused
    from fencepost.newmessage import MessageMaker, NewMessage

    with pytest.raises(MessageRefused, match=RETRIED):
        MessageMaker().make(NewMessage("orders", 1, headers={RETRIED: "1"}))
