"""What MariaDB does that other databases do not: locks between rows, engines, collations, replicas, its counter."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pymysql
import pytest

from fencepost.databases.mariadb import MariadbSession
from fencepost.databases.mariadb.checks import Server, check_server
from fencepost.databases.mariadb.connection import Outbox
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    Contention,
    DeadlineExceeded,
    FencepostError,
    FixError,
    SchemaMissing,
    Unavailable,
)
from fencepost.message import Stored
from fencepost.outbox import NewMessage
from fencepost.outbox import Outbox as Adding
from fencepost.ports import DatabaseOptions
from fencepost.sql.faults import fault_of
from tests.databases.mariadb_kit import connected
from tests.databases.places import LANE, Connect, MariadbPlace, pairs, row

ISOLATION = pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])


@contextmanager
def application(place: MariadbPlace, isolation: str = "REPEATABLE READ", **more: Any) -> Iterator[Any]:
    """A connection of an application, with its transaction open."""
    with closing(connected(place.options.url, autocommit=False, **more)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
        connection.begin()
        yield connection


# ------------------------------------------------------------------------------------- the relay and writers at once


@ISOLATION
@pytest.mark.parametrize("rows", [1, 300])
async def test_no_statement_of_a_relay_waits_for_an_open_transaction(
    mariadb: MariadbPlace, connect: Connect, isolation: str, rows: int
) -> None:
    """Also where the table is so small that a scan looks cheaper: each row is looked up by its position."""
    added = mariadb.add(*(row(key=f"k{i}") for i in range(rows)))
    session = await connect(MariadbPlace(replace(mariadb.options, timeout_s=4.0)))
    with application(mariadb, isolation) as writer:
        Adding(prefix=mariadb.options.prefix).add_all(writer, [NewMessage("orders", 1, key="open") for _ in range(3)])
        later = mariadb.add(row(key="later"))
        async with asyncio.timeout(8):
            await _everything(session, [*added, *later])
        writer.commit()
    assert len(await session.pending(LANE, 10)) == 3


async def _everything(session: MariadbSession, rows: list[tuple[int, str]]) -> None:
    found = {m.position: m for m in await session.pending(LANE, 1000)}
    messages = [found[position] for position, _ in rows]
    assert len(await session.below(LANE, rows[-1][0], 1000)) == len(rows)
    await session.in_doubt(messages, 7)
    await session.failed([(messages[0], "no")])
    await session.release_due(100)
    assert len(await session.held([(rows[0][0], rows[-1][0])])) == len(rows)
    assert await session.reserve(rows[-1][0] + 50) is True
    await session.park([(messages[0], "bad")])
    assert await session.settle(rows[1:]) == len(rows) - 1


@ISOLATION
async def test_no_writer_waits_for_what_a_relay_deletes(
    mariadb: MariadbPlace, connect: Connect, isolation: str
) -> None:
    """A relay's transaction that has deleted and parked rows stays open: the gaps between them are not locked."""
    added = mariadb.add(*(row(key=f"k{i}") for i in range(20)))
    session = await connect(mariadb)
    connection = session._writer.connection
    await connection.say("BEGIN")
    texts = session._statements
    given = "[" + ",".join(f'[{position},"{message_id}"]' for position, message_id in added[::2]) + "]"
    assert await connection.change(texts.settle, given) == 10
    assert await connection.change(texts.copy_to_parked, "bad", *added[1]) == 1
    assert await connection.change(texts.remove, *added[1]) == 1
    with application(mariadb, isolation) as writer, writer.cursor() as cursor:
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 2")
        Adding(prefix=mariadb.options.prefix).add_all(writer, [NewMessage("orders", 1, key="new")] * 3)
        cursor.execute(  # a row with a position in the middle of those that are deleted, as a late commit has
            f"INSERT INTO {mariadb.outbox} (seq, id, topic, type, slot, content_type, occurred_at)"
            " VALUES (%s, UUID(), 't', 't', 0, 'a/b', NOW())",
            (added[-1][0] + 1000,),
        )
        writer.commit()
    await connection.say("ROLLBACK")


def _writes(place: MariadbPlace, isolation: str, number: int, done: threading.Event, told: list[object]) -> None:
    outbox = Adding(prefix=place.options.prefix)
    with application(place, isolation) as connection:
        for turn in range(40):
            try:
                keys = sorted({f"k{(number * 7 + turn * 3) % 11}", f"k{turn % 5}"})
                outbox.add_all(connection, [NewMessage("orders", turn, key=key) for key in keys])
                connection.commit()
                told += keys
            except pymysql.Error as error:
                told.append(error)
                connection.rollback()
    done.set()


@ISOLATION
async def test_writers_and_a_relay_that_settles_do_not_hold_each_other_up(
    mariadb: MariadbPlace, connect: Connect, isolation: str
) -> None:
    """B5, D12: no deadlock, no lock timeout, nothing lost, versions without gaps."""
    told: list[object] = []
    done = [threading.Event() for _ in range(6)]
    threads = [
        threading.Thread(target=_writes, args=(mariadb, isolation, n, event, told)) for n, event in enumerate(done)
    ]
    for thread in threads:
        thread.start()
    session = await connect(mariadb)
    seen: list[Stored] = []
    last = False
    while not last:
        last = all(event.is_set() for event in done)
        rows = await session.pending(LANE, 50)
        while rows:
            seen += rows
            assert await session.settle([(m.position, m.id) for m in rows]) == len(rows)
            rows = await session.pending(LANE, 50)
        await asyncio.sleep(0.005)
    for thread in threads:
        thread.join()
    assert not [item for item in told if not isinstance(item, str)]
    assert len(seen) == len(told)
    for key in set(told):
        versions = [m.version for m in seen if m.key == key]
        assert versions == list(range(1, len(versions) + 1)), key


async def test_deadlocks_and_lock_timeouts_are_waited_for(mariadb: MariadbPlace) -> None:
    """1213 and 1205 had no effect: try again."""
    mariadb.add(row(key="a"), row(key="b"))
    with application(mariadb) as one, application(mariadb) as two, one.cursor() as first, two.cursor() as second:
        update = f"UPDATE {mariadb.outbox} SET attempts = 1 WHERE seq = %s"
        first.execute(update, (1,))
        second.execute("SET SESSION innodb_lock_wait_timeout = 1")
        with pytest.raises(pymysql.OperationalError) as caught:
            second.execute(update, (1,))
        assert isinstance(fault_of(caught.value, "there"), Contention)
        second.execute(update, (2,))
        crossing = threading.Thread(target=_quietly, args=(first, update, 2))
        crossing.start()
        await asyncio.sleep(0.2)
        found = _quietly(second, update, 1)
        crossing.join()
    assert found is None or isinstance(fault_of(found, "there"), Contention)


def _quietly(cursor: Any, text: str, position: int) -> pymysql.Error | None:
    try:
        cursor.execute(text, (position,))
    except pymysql.Error as error:
        return error
    return None


async def test_a_snapshot_that_is_too_old_is_waited_for(mariadb: MariadbPlace) -> None:
    """1020: under REPEATABLE READ newer servers refuse to lock what has changed since the transaction's first read."""
    outbox = Adding(prefix=mariadb.options.prefix)
    with application(mariadb) as one, one.cursor() as cursor:
        try:
            cursor.execute("SET SESSION innodb_snapshot_isolation = ON")
        except pymysql.OperationalError:
            pytest.skip("a server without innodb_snapshot_isolation never says 1020: there is nothing to wait for")
        outbox.add(one, "orders", 0, key="1")
        one.commit()
        one.begin()
        cursor.execute(f"SELECT count(*) FROM {mariadb.options.prefix}entity")
        with application(mariadb) as other:
            outbox.add(other, "orders", 1, key="1")
            other.commit()
        with pytest.raises(pymysql.OperationalError) as caught:
            outbox.add(one, "orders", 2, key="1")
        one.rollback()
    assert isinstance(fault_of(caught.value, "there"), Contention)
    assert [version for (version,) in mariadb.ask(f"SELECT version FROM {mariadb.outbox} ORDER BY seq")] == [1, 2]


# ---------------------------------------------------------------------------------------------------- the counter


async def test_steps_of_three_and_an_open_transaction(mariadb: MariadbPlace, connect: Connect) -> None:
    """B10: auto_increment_increment = 3, and a transaction that commits late."""
    outbox = Adding(prefix=mariadb.options.prefix)
    session = await connect(mariadb)
    with application(mariadb) as late, late.cursor() as cursor:
        cursor.execute("SET SESSION auto_increment_increment = 3, auto_increment_offset = 2")
        written = [outbox.add(late, "orders", n, key="late") for n in range(3)]
        with application(mariadb) as early:
            expected = [outbox.add(early, "orders", n, key="early") for n in range(3)]
            early.commit()
        assert [m.id for m in await session.pending(LANE, 10)] == [m.id for m in expected]
        late.commit()
    found = await session.pending(LANE, 10)
    assert sorted(m.id for m in found) == sorted(m.id for m in [*written, *expected])
    assert await session.settle([(m.position, m.id) for m in found]) == 6
    highest = max(int(m.position) for m in found)
    assert await session.reserve(highest) is False
    assert await session.reserve(highest + 100) is True
    with application(mariadb) as again, again.cursor() as cursor:
        cursor.execute("SET SESSION auto_increment_increment = 3, auto_increment_offset = 2")
        outbox.add(again, "orders", 0, key="again")
        again.commit()
    assert int((await session.pending(LANE, 1))[0].position) > highest + 100


async def test_positions_are_reserved_under_writers(mariadb: MariadbPlace, connect: Connect) -> None:
    """A15: a row that somebody has open at the very position is not waited for longer than a lock may take."""
    session = await connect(mariadb)
    with application(mariadb) as writer:
        Adding(prefix=mariadb.options.prefix).add(writer, "orders", 1, key="1")
        assert await session.reserve(40) is True
        assert await session.reserve(40) is False
        writer.commit()
    added = mariadb.add(row())
    assert added[0][0] > 40
    assert [int(m.position) for m in await session.pending(LANE, 10)] == [1, added[0][0]]


# --------------------------------------------------------------------------------------------- servers and tables


@pytest.mark.parametrize(
    ("change", "expected", "remedy"),
    [
        ("ALTER TABLE {outbox} ENGINE = MyISAM", "has the engine MyISAM, which has no", "ENGINE = InnoDB"),
        ("ALTER TABLE {prefix}entity ENGINE = Aria", "has the engine Aria", "ENGINE = InnoDB"),
        (
            "ALTER TABLE {prefix}entity MODIFY `key` VARCHAR(255) COLLATE utf8mb4_general_ci",
            "the column key of .*entity takes texts that differ in case",
            "MODIFY `key` VARCHAR.255. CHARACTER SET utf8mb4 .* NOT NULL",
        ),
        (
            "ALTER TABLE {outbox} MODIFY occurred_at TIMESTAMP NOT NULL",
            r"the column occurred_at of .* is timestamp\(0\)",
            r"MODIFY `occurred_at` DATETIME\(6\) NOT NULL",
        ),
        ("ALTER TABLE {outbox} DROP INDEX {outbox}_due", "no index on available_at", "ADD INDEX `.*_due`"),
        ("ALTER TABLE {outbox} MODIFY seq BIGINT NOT NULL", "no sequence numbers", "AUTO_INCREMENT"),
        ("ALTER TABLE {outbox} DROP COLUMN attempts", "attempts", "fencepost schema apply"),
        ("DROP TABLE {prefix}parked", "has no table .*parked", "fencepost schema apply"),
    ],
)
async def test_what_is_wrong_with_the_tables_is_refused(
    mariadb: MariadbPlace, change: str, expected: str, remedy: str
) -> None:
    mariadb.add(row())
    mariadb.ask(change.format(outbox=mariadb.outbox, prefix=mariadb.options.prefix))
    with pytest.raises(FixError, match=f"(?s){expected}.*{remedy}"):
        await mariadb.source.connect()


async def test_all_that_is_wrong_with_the_tables_is_told_at_once(mariadb: MariadbPlace) -> None:
    prefix = mariadb.options.prefix
    mariadb.ask(f"ALTER TABLE {mariadb.outbox} ENGINE = MyISAM, DROP INDEX {mariadb.outbox}_due")
    mariadb.ask(f"ALTER TABLE {prefix}entity MODIFY `key` VARCHAR(255) COLLATE utf8mb4_general_ci NOT NULL")
    mariadb.ask(f"DROP TABLE {prefix}parked")
    with pytest.raises(FixError) as caught:
        await mariadb.source.connect()
    said = ("engine MyISAM.*", "column key of .*entity takes.*", "no index on available_at.*", "no table .*parked")
    assert re.search("; .*".join(said), caught.value.what), caught.value.what
    *mends, apply = caught.value.remedy.split("; ")
    assert apply == "run `fencepost schema apply`"
    for text in mends:
        mariadb.ask(text)
    await mariadb.schema.apply()
    await (await mariadb.source.connect()).close()


SERVER = Server("db1", 3306, 1, "10.11.6-MariaDB-log", "0", 1, "ROW", 1)


@pytest.mark.parametrize(
    ("changes", "kind", "expected"),
    [
        ({"read_only": 1}, Unavailable, "is read-only.*name the primary"),
        ({"read_only": "ON"}, Unavailable, "is read-only"),
        ({"version": "10.5.20-MariaDB"}, ConfigurationError, r"needs MariaDB 10\.6 or later"),
        ({"version": "5.7.44-log"}, ConfigurationError, r"needs MySQL 8\.0 or later"),
        ({"binary_log_format": "STATEMENT"}, ConfigurationError, "SET GLOBAL binlog_format = ROW"),
    ],
)
def test_what_is_wrong_with_a_server_is_refused(
    changes: dict[str, Any], kind: type[FencepostError], expected: str
) -> None:
    outbox = Outbox(DatabaseOptions(url="mariadb://root:secret@db1/shop"))
    check_server(outbox, SERVER)
    check_server(outbox, SERVER._replace(version="8.4.3", binary_log=0, binary_log_format="STATEMENT"))
    with pytest.raises(kind, match=f"(?s)MariaDB root@db1:3306/shop.*{expected}") as caught:
        check_server(outbox, SERVER._replace(**changes))
    assert "secret" not in str(caught.value)


def as_user(place: MariadbPlace, user: str, password: str = "") -> MariadbPlace:
    parts = urlsplit(place.options.url)
    netloc = f"{user}{':' + password if password else ''}@{parts.hostname}:{parts.port}"
    return MariadbPlace(replace(place.options, url=urlunsplit(parts._replace(netloc=netloc))))


async def test_rights_that_are_missing_are_named(mariadb: MariadbPlace, fresh_name: str) -> None:
    """All of them at once, as the statements that grant them; a password is never shown."""
    user = fresh_name.replace("-", "_")
    mariadb.ask(f"CREATE USER '{user}'@'%%' IDENTIFIED BY 'seCret1'")
    other = as_user(mariadb, user, "seCret1")
    try:
        with pytest.raises(FixError, match="grant this user the database") as caught:
            await other.source.connect()
        assert "seCret1" not in str(caught.value)
        mariadb.ask(f"GRANT SELECT ON {mariadb.outbox} TO '{user}'@'%%'")
        mariadb.ask(f"GRANT SELECT ON {mariadb.options.prefix}parked TO '{user}'@'%%'")
        with pytest.raises(AccessDenied, match=r"GRANT DELETE, INSERT, UPDATE ON .*outbox.*GRANT INSERT.* ON .*parked"):
            await other.source.connect()
        mariadb.ask(f"GRANT INSERT, UPDATE, DELETE ON {mariadb.outbox} TO '{user}'@'%%'")
        mariadb.ask(f"GRANT INSERT, UPDATE ON {mariadb.options.prefix}parked TO '{user}'@'%%'")
        session = await other.source.connect()
        assert await session.pending(LANE, 10) == []
        await session.close()
    finally:
        mariadb.ask(f"DROP USER '{user}'@'%%'")


async def test_a_wrong_password_and_a_missing_database(mariadb: MariadbPlace) -> None:
    with pytest.raises(AccessDenied, match="check user and password") as caught:
        await as_user(mariadb, "nobody", "seCret1").source.connect()
    assert "seCret1" not in str(caught.value)
    parts = urlsplit(mariadb.options.url)
    nowhere = replace(mariadb.options, url=urlunsplit(parts._replace(path="/nowhere")))
    with pytest.raises(ConfigurationError, match="CREATE DATABASE"):
        await MariadbPlace(nowhere).source.connect()
    with pytest.raises(SchemaMissing):
        await mariadb.other(prefix="nowhere_").source.connect()


async def test_nobody_listens_there(mariadb: MariadbPlace) -> None:
    options = replace(mariadb.options, url="mariadb://root@127.0.0.1:1/shop", timeout_s=5.0)
    with pytest.raises(Unavailable, match="is the server running"):
        await MariadbPlace(options).source.connect()


# -------------------------------------------------------------------------------------------- the end of connections


@pytest.mark.parametrize("which", ["_reader", "_writer"])
async def test_a_killed_connection_ends_the_session(mariadb: MariadbPlace, which: str, connect: Connect) -> None:
    """D5: either of the two; whatever is called next says so, and a new session works."""
    added = mariadb.add(row())
    session = await connect(mariadb)
    waiting = asyncio.ensure_future(_wait_for_ever(session))
    mariadb.ask(f"KILL CONNECTION {getattr(session, which).connection.driver.thread_id()}")
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(waiting, 5)
    for call in (session.pending(LANE, 1), session.settle(added), session.reserve(1), session.held([(1, 2)])):
        with pytest.raises(ConnectionLost):
            await call
    assert await (await connect(mariadb)).settle(added) == 1


async def _wait_for_ever(session: MariadbSession) -> None:
    while True:
        await session.wait(LANE, 30)


async def test_no_statement_lives_longer_than_its_deadline(mariadb: MariadbPlace, connect: Connect) -> None:
    """Neither here nor in the server: a settle that was given up must not happen later."""
    added = mariadb.add(row())
    session = await connect(MariadbPlace(replace(mariadb.options, timeout_s=1.0)))
    with application(mariadb) as blocker, blocker.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {mariadb.outbox} FOR UPDATE")
        began = time.monotonic()
        with pytest.raises((DeadlineExceeded, Contention)):
            await asyncio.wait_for(session.settle(added), 8)
        assert time.monotonic() - began < 6
        await asyncio.sleep(1.2)
    await asyncio.sleep(0.2)
    assert mariadb.ask(f"SELECT count(*) FROM {mariadb.outbox}") == [(1,)]


async def test_a_cancelled_call_takes_its_connection_along(mariadb: MariadbPlace, connect: Connect) -> None:
    """An answer that nobody waited for must not be taken for that of the next call."""
    added = mariadb.add(row(), row())
    session = await connect(mariadb)
    call: Awaitable[Any] = session._rows(session._reader, "SELECT SLEEP(5)")
    sleeping = asyncio.ensure_future(call)
    await asyncio.sleep(0.2)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    await asyncio.sleep(0.1)
    with pytest.raises(ConnectionLost):
        await session.pending(LANE, 10)
    assert pairs(await (await connect(mariadb)).pending(LANE, 10)) == added
