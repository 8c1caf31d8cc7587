"""An application with an outbox in SQLite, on the standard library's sqlite3."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from fencepost.message import Message
from fencepost.outbox import Outbox
from fencepost.ports import DatabaseOptions
from fencepost.testing.harness import Transaction, new_message
from fencepost.testing.writers.sql import SqlWriter

BUSY_S = 10.0


class _SqliteTransaction:
    def __init__(self, outbox: Outbox, connection: sqlite3.Connection) -> None:
        self._outbox, self._connection = outbox, connection

    async def add(self, *messages: Message) -> Sequence[Message]:
        return await asyncio.to_thread(self._add, messages)

    def _add(self, messages: Sequence[Message]) -> list[Message]:
        return [one for m in messages for one in self._outbox.add_all(self._connection, [new_message(m)])]


class SqliteWriter(SqlWriter):
    """``fencepost.testing.harness.Writer`` says what each call promises."""

    concurrent = False

    def __init__(self, options: DatabaseOptions) -> None:
        url = sa.make_url(options.url)
        super().__init__(options, url.set(drivername="sqlite+aiosqlite"))
        self._outbox = Outbox(schema=options.schema, prefix=options.prefix, max_bytes=None)
        self._file = url.database or ""
        self._copy = Path(f"{self._file}.copy")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        connect = partial(sqlite3.connect, self._file, isolation_level=None, timeout=BUSY_S, check_same_thread=False)
        with closing(await asyncio.to_thread(connect)) as connection:
            await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
            try:
                yield _SqliteTransaction(self._outbox, connection)
            except BaseException:
                connection.rollback()
                raise
            await asyncio.to_thread(connection.commit)

    async def back_up(self) -> None:
        await asyncio.to_thread(self._back_up)

    def _back_up(self) -> None:
        with closing(sqlite3.connect(self._file)) as connection, closing(sqlite3.connect(self._copy)) as copy:
            connection.backup(copy)

    async def put_back(self) -> None:
        await asyncio.to_thread(self._put_back)

    def _put_back(self) -> None:
        for journal in ("-wal", "-shm"):  # what they hold belongs to the file that goes
            Path(f"{self._file}{journal}").unlink(missing_ok=True)
        self._copy.replace(self._file)

    async def close(self) -> None:
        await super().close()
        self._copy.unlink(missing_ok=True)


def writer(options: DatabaseOptions) -> SqliteWriter:
    """The writer of one outbox."""
    return SqliteWriter(options)
