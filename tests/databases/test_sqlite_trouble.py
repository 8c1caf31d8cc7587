"""SQLite's own ways: one writer at a time, a file that somebody may replace, no message from anybody."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.databases import sqlite as plugin
from fencepost.databases.sqlite.connection import path_of
from fencepost.databases.sqlite.faults import ERRORS, fault_of
from fencepost.databases.sqlite.session import LONGEST_WAIT_S
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
from fencepost.events import ReceiptsSettled
from fencepost.outbox import Outbox
from fencepost.ports import DatabaseOptions
from fencepost.relay.lane import LaneOptions
from fencepost.testing.relaying import relayed
from tests.databases.places import LANE, Connect, SqlitePlace, pairs, row


def journal(place: SqlitePlace, mode: str) -> None:
    with closing(sqlite3.connect(place.path)) as connection:
        assert connection.execute(f"PRAGMA journal_mode = {mode}").fetchall() == [(mode,)]


# ------------------------------------------------------------------------------------------------------------- wake-up


@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_a_commit_is_noticed_soon(sqlite: SqlitePlace, mode: str, connect: Connect) -> None:
    journal(sqlite, mode)
    session = await connect(sqlite)
    for _ in range(3):
        assert await session.pending(LANE, 10) == []
        await session.wait(LANE, 0.1)
    waiting = asyncio.ensure_future(session.wait(LANE, 30))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    with sqlite3.connect(sqlite.path) as connection:
        added = Outbox().add(connection, "orders", {"total": 1}, key="order-1")
    connection.close()
    began = time.monotonic()
    await asyncio.wait_for(waiting, 5)
    assert time.monotonic() - began < LONGEST_WAIT_S + 1
    assert [m.id for m in await session.pending(LANE, 10)] == [added.id]
    await session.close()


async def test_a_commit_between_a_look_and_the_wait_is_noticed(sqlite: SqlitePlace, connect: Connect) -> None:
    session = await connect(sqlite)
    for _ in range(20):
        await session.wait(LANE, 0)
        rows = await session.pending(LANE, 100)
        sqlite.add(row())
        began = time.monotonic()
        await session.wait(LANE, 30)
        assert time.monotonic() - began < 5
        assert len(await session.pending(LANE, 100)) == len(rows) + 1
    await session.close()


async def test_where_nothing_happens_it_waits_as_long_as_it_may(sqlite: SqlitePlace, connect: Connect) -> None:
    session = await connect(sqlite)
    await session.wait(LANE, 0)
    began = time.monotonic()
    await session.wait(LANE, 0.4)
    assert time.monotonic() - began >= 0.4
    await session.close()


# --------------------------------------------------------------------------------------------------------------- locks


async def test_a_writer_that_takes_its_time_is_waited_for(sqlite: SqlitePlace, connect: Connect) -> None:
    added = sqlite.add(row(key="a"))
    session = await connect(sqlite)

    def write_slowly() -> None:
        writer = sqlite.begin()
        writer.insert(row(key="b"))
        time.sleep(1)
        writer.commit()

    writing = asyncio.ensure_future(asyncio.to_thread(write_slowly))
    await asyncio.sleep(0.3)
    settling = asyncio.ensure_future(session.settle(added))
    await asyncio.sleep(0.3)
    assert not settling.done()
    assert pairs(await session.pending(LANE, 10)) == added
    assert await settling == 1
    await writing
    await session.close()


async def test_to_close_does_not_wait_for_another_writer(sqlite: SqlitePlace, connect: Connect) -> None:
    """Nor does the end of the process."""
    added = sqlite.add(row())
    session = await connect(sqlite)
    writer = sqlite.begin()
    writer.insert(row())
    settling = asyncio.ensure_future(session.settle(added))
    await asyncio.sleep(0.1)
    began = time.monotonic()
    await session.close()
    with pytest.raises(ConnectionLost):
        await settling
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and "_connection_worker_thread" in thread.name:
            thread.join(5)
    assert time.monotonic() - began < 3
    writer.rollback()


async def test_a_writer_that_never_ends_is_contention(sqlite: SqlitePlace, connect: Connect) -> None:
    """The statement had no effect, and the session goes on."""
    place = SqlitePlace(replace(sqlite.options, timeout_s=0.5))
    added = place.add(row())
    session = await connect(place)
    writer = place.begin()
    writer.insert(row())
    (message,) = await session.pending(LANE, 10)
    for call in (session.settle(added), session.park([(message, "no")]), session.reserve(99)):
        with pytest.raises(Contention):
            await call
    writer.rollback()
    assert await session.settle(added) == 1
    await session.close()


@pytest.mark.parametrize("mode", ["wal", "delete", "truncate"])
async def test_a_read_never_stays_open(sqlite: SqlitePlace, mode: str, connect: Connect) -> None:
    """With a rollback journal it would hold up every writer."""
    journal(sqlite, mode)
    added = sqlite.add(*(row(key=f"k{i}") for i in range(3000)))
    session = await connect(sqlite)
    assert len(await session.pending(LANE, 2000)) == 2000
    assert len(await session.held([(1, 3000)])) == 3000
    await session.wait(LANE, 0.01)
    await session.release_due(10)
    with closing(sqlite3.connect(sqlite.path, timeout=0)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("ROLLBACK")
    assert await session.settle(added[:10]) == 10
    with closing(sqlite3.connect(sqlite.path, timeout=0)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("ROLLBACK")
    await session.close()


async def test_a_write_that_was_given_up_leaves_no_transaction_open(sqlite: SqlitePlace, connect: Connect) -> None:
    session = await connect(sqlite)
    for turns in range(12):
        sqlite.add(*(row() for _ in range(50)))
        messages = await session.pending(LANE, 50)
        parking = asyncio.ensure_future(session.park([(m, "no") for m in messages]))
        for _ in range(turns):
            await asyncio.sleep(0)
        parking.cancel()
        await asyncio.gather(parking, return_exceptions=True)
        left = len(await session.pending(LANE, 100))
        assert await session.settle(pairs(messages)) in {0, 50}, left
    with closing(sqlite3.connect(sqlite.path, timeout=5)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
    await session.close()


async def test_a_call_that_does_not_end_ends_the_session(sqlite: SqlitePlace, connect: Connect) -> None:
    """D4: a disk that does not answer, played by a statement that takes too long."""
    place = SqlitePlace(replace(sqlite.options, timeout_s=0.3))
    session = await connect(place)
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        await session._read(endless)
    assert time.monotonic() - began < 3
    with pytest.raises(ConnectionLost):
        await session.pending(LANE, 1)
    await asyncio.wait_for(session.close(), 3)
    again = await connect(sqlite)
    assert await again.pending(LANE, 10) == []
    await again.close()


# ----------------------------------------------------------------------------------------------------------- the file


async def test_a_file_that_was_replaced_ends_the_session(sqlite: SqlitePlace, connect: Connect) -> None:
    """A15: somebody restored a backup; what is read and settled must be in the file that the writers use."""
    copy = sqlite.path.with_suffix(".copy")
    journal(sqlite, "delete")
    shutil.copy(sqlite.path, copy)
    old = sqlite.add(row(key="old"))
    session = await connect(sqlite)
    assert pairs(await session.pending(LANE, 10)) == old
    copy.replace(sqlite.path)
    new = sqlite.add(row(key="new"))
    assert new[0][0] == old[0][0]
    for call in (session.settle(old), session.pending(LANE, 10), session.wait(LANE, 5)):
        with pytest.raises(ConnectionLost, match="replaced"):
            await call
    await session.close()
    again = await connect(sqlite)
    assert await again.settle(old) == 0
    assert pairs(await again.pending(LANE, 10)) == new
    await again.close()


async def test_a_file_that_was_removed_ends_the_session(sqlite: SqlitePlace, connect: Connect) -> None:
    session = await connect(sqlite)
    sqlite.path.unlink()
    with pytest.raises(ConnectionLost):
        await session.wait(LANE, 5)
    await session.close()
    with pytest.raises(FixError, match="fencepost schema apply"):
        await sqlite.source.connect()
    assert not sqlite.path.exists()


async def test_a_file_without_tables_says_what_to_do(sqlite: SqlitePlace) -> None:
    other = sqlite.other(prefix="none_")
    with pytest.raises(SchemaMissing, match=r"none_entity.*none_outbox.*fencepost schema apply"):
        await other.source.connect()
    with pytest.raises(SchemaMissing):
        await other.source.backlog()


async def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear friend, " * 1000)
    with pytest.raises(FixError, match=r"letter\.txt"):
        await plugin.source(DatabaseOptions(url=f"sqlite:///{path}")).connect()


@pytest.mark.parametrize("name", ["nowhere/app.db", "file/app.db"])
async def test_a_folder_that_does_not_exist_is_named(name: str, tmp_path: Path) -> None:
    """`schema apply` makes no folder: to advise it would lead in a circle."""
    (tmp_path / "file").write_text("not a folder")
    options = DatabaseOptions(url=f"sqlite:///{tmp_path}/{name}")
    schema, source = plugin.schema(options), plugin.source(options)
    for call in (schema.apply, schema.missing, source.connect, source.backlog):
        with pytest.raises(FixError, match=f"{name}: there is no folder") as caught:
            await call()
        assert "mkdir -p" in caught.value.remedy
        assert "schema apply" not in caught.value.remedy


async def test_a_folder_that_may_not_be_written_to_is_refused(
    sqlite: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal stands in it."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).is_file())
    with pytest.raises(AccessDenied, match=f"the folder {sqlite.path.parent} is read-only"):
        await sqlite.source.connect()


async def test_a_file_that_may_not_be_written_is_refused(sqlite: SqlitePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is root may write everything, so the system's answer is played here."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(AccessDenied, match="read-only"):
        await sqlite.source.connect()


async def test_the_journal_is_left_alone_and_advised_about(sqlite: SqlitePlace, connect: Connect) -> None:
    source = plugin.source(sqlite.options)
    assert await source.advice() == ()
    journal(sqlite, "delete")
    (line,) = await source.advice()
    assert "journal_mode = WAL" in line
    session = await connect(sqlite)
    await session.settle(sqlite.add(row()))
    await session.close()
    assert sqlite.ask("PRAGMA journal_mode") == [("delete",)]


# ------------------------------------------------------------------------------------------------------ URLs and faults


def test_urls_name_files() -> None:
    assert path_of("sqlite:////data/my app.db") == Path("/data/my app.db")
    assert path_of("sqlite:///app.db") == Path("app.db").absolute()
    assert path_of("sqlite+aiosqlite:///app.db?timeout=3") == Path("app.db").absolute()


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true", "mysql://x/y"]
)
def test_what_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        plugin.source(DatabaseOptions(url=url))


def test_there_are_no_schemas() -> None:
    with pytest.raises(ConfigurationError, match="prefix"):
        plugin.schema(DatabaseOptions(url="sqlite:///app.db", schema="mine"))


CODES: dict[str, type[FencepostError]] = {
    "SQLITE_AUTH": AccessDenied,
    "SQLITE_BUSY": Contention,
    "SQLITE_BUSY_SNAPSHOT": Contention,
    "SQLITE_CANTOPEN": FixError,
    "SQLITE_CORRUPT": FixError,
    "SQLITE_FULL": Unavailable,
    "SQLITE_INTERRUPT": ConnectionLost,
    "SQLITE_IOERR": Unavailable,
    "SQLITE_IOERR_FSYNC": Unavailable,
    "SQLITE_LOCKED": Contention,
    "SQLITE_NOTADB": FixError,
    "SQLITE_PERM": AccessDenied,
    "SQLITE_READONLY": AccessDenied,
    "SQLITE_READONLY_DBMOVED": AccessDenied,
}


@pytest.mark.parametrize(("name", "family"), CODES.items())
def test_every_result_code_belongs_to_a_family(name: str, family: type[FencepostError]) -> None:
    error = sqlite3.OperationalError("said")
    error.sqlite_errorcode = getattr(sqlite3, name)
    assert isinstance(error, ERRORS)
    assert isinstance(fault_of(error, "here"), family)
    assert fault_of(error, "here").what == "here: said"


def test_no_result_code_is_unmapped() -> None:
    names = [name for name in dir(sqlite3) if name.startswith("SQLITE_") and name.isupper()]
    errors = []
    for name in names:
        error = sqlite3.OperationalError("said")
        error.sqlite_errorcode = getattr(sqlite3, name)
        errors.append(error)
    assert len(errors) > 50
    assert all(isinstance(fault_of(error, "here"), FencepostError) for error in errors)


# ----------------------------------------------------------------------------------------------------------- positions


async def test_c5_a_table_that_hands_positions_out_again_is_refused(sqlite: SqlitePlace) -> None:
    """Somebody made it without AUTOINCREMENT, which a migration loses easily; it is told how it must be."""
    with closing(sqlite3.connect(sqlite.path)) as connection, connection:
        ((made_by,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (sqlite.outbox,))
        connection.execute(f"DROP TABLE {sqlite.outbox}")
        connection.execute(made_by.replace(" AUTOINCREMENT", ""))
    with pytest.raises(SchemaMissing, match="is not AUTOINCREMENT") as caught:
        await sqlite.source.connect()
    assert "fencepost schema print" in caught.value.remedy


async def test_c5_a_relay_that_is_at_work_skips_nothing_when_positions_come_back(sqlite: SqlitePlace) -> None:
    """The same table, changed behind the relay's back: one message after the other, all at the same position."""
    published: list[str] = []
    async with relayed(sqlite.source, LANE, LaneOptions(batch=4, poll_s=0.02)) as relay:
        await relay.until(lambda: bool(relay.told(ReceiptsSettled)))
        for n in range(10):
            with closing(sqlite3.connect(sqlite.path)) as connection, connection:
                connection.execute("DELETE FROM sqlite_sequence")  # what AUTOINCREMENT remembers
            ((position, message_id),) = sqlite.add(row(key=f"k{n % 2}"))
            assert position == 1
            published.append(message_id)
            await relay.until(lambda: len(relay.ids("orders")) == len(published) and not waiting(sqlite))
    assert relay.ids("orders") == published


def waiting(place: SqlitePlace) -> int:
    ((count,),) = place.ask(f"SELECT count(*) FROM {place.outbox}")
    return int(count)
