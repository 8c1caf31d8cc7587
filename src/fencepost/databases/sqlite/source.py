"""The source: opens sessions, after a look whether the file and the tables are there."""

from __future__ import annotations

import re
from collections.abc import Sequence

import aiosqlite

from fencepost.databases.sqlite.connection import Outbox, first, leave
from fencepost.databases.sqlite.parked import ParkedLine
from fencepost.databases.sqlite.purger import SqlitePurger
from fencepost.databases.sqlite.session import SqliteSession
from fencepost.errors import SchemaMissing
from fencepost.ports import Backlog, ParkedStore
from fencepost.sql import schema as ddl
from fencepost.sql.existing.parked import parked_store
from fencepost.sql.faults import APPLY
from fencepost.sql.source import backlog_of, must_be_kept

_MADE_BY = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
_COUNTS_UP = re.compile(r"\bAUTOINCREMENT\b", re.IGNORECASE)


class SqliteSource:
    """An outbox that a relay reads."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def connect(self) -> SqliteSession:
        self._outbox.check_writable()
        return await self._outbox.in_time(self._connect)

    async def backlog(self) -> Backlog:
        return backlog_of(await self._outbox.on_one(lambda c: first(c, self._outbox.statements.backlog)))

    async def purger(self) -> SqlitePurger:
        must_be_kept(self._outbox.options)
        await (await self.connect()).close()
        return SqlitePurger(self._outbox, self._outbox.identity())

    async def parked(self) -> ParkedStore:
        await (await self.connect()).close()
        return parked_store(ParkedLine(self._outbox, self._outbox.identity()), self._outbox)

    async def advice(self) -> Sequence[str]:
        """What would make this file a better outbox, one line each; nothing where it is well set up."""
        (mode,) = await self._outbox.on_one(lambda c: first(c, "PRAGMA journal_mode"))
        if mode == "wal":
            return ()
        return (
            f"{self._outbox.place} has the journal mode {mode!r}, in which readers and writers hold each other up:"
            " run PRAGMA journal_mode = WAL on it once",
        )

    async def _connect(self) -> SqliteSession:
        identity = self._outbox.identity()
        reader = await self._outbox.open()
        try:
            missing = await self._outbox.missing(reader)
            if missing:
                names = ", ".join(table.name for table in missing)
                raise SchemaMissing(f"{self._outbox.place} has no table {names}", remedy=APPLY)
            await self._check_positions(reader)
            if lacking := await self._outbox.lacking(reader, ddl.of_a_relay(self._outbox.tables)):
                raise SchemaMissing(f"{self._outbox.place} lacks {', '.join(lacking)}", remedy=APPLY)
            return SqliteSession(self._outbox, identity, reader, await self._open_writer())
        except BaseException:
            await leave(reader)
            raise

    async def _check_positions(self, connection: aiosqlite.Connection) -> None:
        """A position that comes back would be told as a database that fell back, again and again."""
        name = self._outbox.tables.outbox.name
        (made_by,) = await first(connection, _MADE_BY, name)
        if not _COUNTS_UP.search(made_by):
            raise SchemaMissing(
                f"{self._outbox.place}: {name}.seq is not AUTOINCREMENT, so SQLite hands the last position out again "
                "once its row is gone",
                remedy="make the table again, as `fencepost schema print` writes it, and copy its rows",
            )

    async def _open_writer(self) -> aiosqlite.Connection:
        writer = await self._outbox.open()
        try:
            await writer.execute("PRAGMA synchronous = FULL")  # what is settled is on the disk
        except BaseException:
            await leave(writer)
            raise
        return writer
