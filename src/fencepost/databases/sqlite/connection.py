"""Where an outbox in SQLite is, and how every connection to it is made."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from zlib import crc32

import aiosqlite
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from fencepost.databases.sqlite.faults import ERRORS, fault_of
from fencepost.errors import AccessDenied, ConfigurationError, Contention, DeadlineExceeded, FencepostError, FixError
from fencepost.plugins import name_of
from fencepost.ports import DatabaseOptions
from fencepost.sql import schema as ddl
from fencepost.sql.address import file_in
from fencepost.sql.existing.sqlite import CRC
from fencepost.sql.place import SqlOutbox
from fencepost.sql.sqlite_opening import opened

T = TypeVar("T")
Work = Callable[[aiosqlite.Connection], Awaitable[T]]

_PATIENCE = 0.8  # the share of the deadline in which a lock of somebody else is waited for
_BUSY_S = 0.008  # of that, at a time in SQLite itself: it looks ever more seldom, and nobody can call it back
_AGAIN_S = 0.001
_GOODBYE_S = 0.5


def path_of(url: str) -> Path:
    """The file that a URL names: sqlite:///relative/path or sqlite:////absolute/path.

    Raises ConfigurationError where it names none.
    """
    if name_of("database", url) != "sqlite":
        raise ConfigurationError("the URL is not that of a SQLite file", remedy="write sqlite:///path")
    name = file_in(url)
    if name in {"", ":memory:"} or name.startswith("file:"):
        raise ConfigurationError(
            f"{url.partition('?')[0]!r} names no file, and a database in memory is seen by one connection only, not by"
            " a relay",
            remedy="write sqlite:///path",
        )
    return Path(name).absolute()


class Outbox(SqlOutbox):
    """One outbox."""

    def __init__(self, options: DatabaseOptions) -> None:
        if options.schema is not None:
            raise ConfigurationError("SQLite has no schemas", remedy="leave schema away; prefix tells outboxes apart")
        self.path = path_of(options.url)
        super().__init__(options, f"SQLite {self.path}", sqlite.dialect())

    def identity(self) -> tuple[int, int] | None:
        """Which file stands there now; None where there is none.

        It tells two files apart while the first one is open, as a session's is: afterwards its number is given again.
        """
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise AccessDenied(f"{self.place} is in a folder that this process may not enter") from error
        return found.st_dev, found.st_ino

    def check_folder(self) -> None:
        """Raise FixError where there is no folder in which the file could be."""
        folder = self.path.parent
        if not folder.is_dir():
            raise FixError(
                f"{self.place}: there is no folder {folder}",
                remedy=f"mkdir -p {folder}, or correct the path in the URL",
            )

    def check_writable(self) -> None:
        """Raise AccessDenied where this process may not write to the file, or beside it, where the journal stands."""
        for what, path in ((self.place, self.path), (f"{self.place}: the folder {self.path.parent}", self.path.parent)):
            if path.exists() and not os.access(path, os.W_OK):
                raise AccessDenied(
                    f"{what} is read-only for this process", remedy="let the user of this process write to it"
                )

    async def open(self, *, create: bool = False) -> aiosqlite.Connection:
        """A new connection. Whoever calls keeps the deadline and maps the errors."""
        self.check_folder()
        address = f"file:{quote(str(self.path))}?mode={'rwc' if create else 'rw'}"
        busy_s = min(_BUSY_S, self.options.timeout_s * (1 - _PATIENCE) / 2)
        connection: aiosqlite.Connection = await opened(
            aiosqlite, address, uri=True, isolation_level=None, timeout=busy_s
        )
        try:
            if self.options.table is not None:
                await connection.create_function(CRC, 1, _crc32, deterministic=True)
        except BaseException:
            await leave(connection)
            raise
        return connection

    async def on_one(self, work: Work[T], *, create: bool = False) -> T:
        """Await what works on a connection of its own, in time and with its errors mapped."""

        async def call() -> T:
            connection = await self.open(create=create)
            try:
                return await work(connection)
            finally:
                await leave(connection)

        return await self.in_time(call)

    async def in_time(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await a call, in time and with its errors mapped; again while somebody else has the lock that it needs."""
        try:
            async with asyncio.timeout(self.options.timeout_s):
                return await self._patiently(call)
        except FencepostError:
            raise
        except ERRORS as error:
            raise self.fault_of(error) from error

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        clock = self.options.clock
        end = clock.monotonic() + self.options.timeout_s * _PATIENCE
        while True:
            try:
                return await call()
            except sqlite3.OperationalError as error:
                if not isinstance(self.fault_of(error), Contention) or clock.monotonic() >= end:
                    raise
            await clock.sleep(_AGAIN_S)

    def fault_of(self, error: Exception) -> FencepostError:
        """The family of an error. A timeout without a text is our own deadline."""
        if isinstance(error, TimeoutError) and not str(error):
            return DeadlineExceeded(f"{self.place} did not answer within {self.options.timeout_s:g} s")
        return fault_of(error, self.place)

    async def missing(self, connection: aiosqlite.Connection) -> list[sa.Table]:
        """The tables that do not exist."""
        rows = await connection.execute_fetchall("SELECT name FROM sqlite_master WHERE type = 'table'")
        there = {name for (name,) in rows}
        return [table for table in ddl.all_tables(self.tables) if table.name not in there]

    async def parts(self, connection: aiosqlite.Connection, table: sa.Table) -> tuple[list[str], list[str]]:
        """See SqlOutbox."""
        columns = await connection.execute_fetchall("SELECT name FROM pragma_table_info(?)", (table.name,))
        indexes = await connection.execute_fetchall("SELECT name FROM pragma_index_list(?)", (table.name,))
        return [name for (name,) in columns], [name for (name,) in indexes]


def _crc32(text: str) -> int:
    return crc32(text.encode())


async def first(connection: aiosqlite.Connection, text: str, *arguments: object) -> Any:
    """The first row; None where there is none."""
    return next(iter(await connection.execute_fetchall(text, arguments)), None)


async def many(connection: aiosqlite.Connection, text: str, rows: Sequence[Sequence[Any]]) -> int:
    """One statement for each row of arguments; how many rows it changed in all."""
    return (await connection.executemany(text, rows)).rowcount


async def leave(connection: aiosqlite.Connection) -> None:
    """Close, or leave that to the connection's own thread where it is held up: it ends with its call."""
    leaving = asyncio.ensure_future(connection.close())
    leaving.add_done_callback(lambda task: task.cancelled() or task.exception())
    await asyncio.wait([leaving], timeout=_GOODBYE_S)
