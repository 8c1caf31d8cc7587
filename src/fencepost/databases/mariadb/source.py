"""The source: opens sessions, after a look whether the server, the tables and the rights are what a relay needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fencepost.databases.mariadb import checks
from fencepost.databases.mariadb.connection import Connection, Outbox
from fencepost.databases.mariadb.parked import ParkedLine
from fencepost.databases.mariadb.purger import MariadbPurger
from fencepost.databases.mariadb.session import MariadbSession, insert_at
from fencepost.errors import Unavailable
from fencepost.ports import Backlog, DatabaseOptions, ParkedStore
from fencepost.sql.parked_store import SqlParkedStore
from fencepost.sql.source import must_be_kept

_READS = ("pending", "pending_in_slots", "below", "below_in_slots")
_PURGES = ("purgeable", "oldest_settled", "purge")
_WRITES = (
    "settle",
    "held",
    "held_at",
    "in_doubt",
    "failed",
    "copy_to_parked",
    "remove",
    "due",
    "release_due",
    "next_due",
)


class MariadbSource:
    """An outbox that a relay reads."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)

    async def connect(self) -> MariadbSession:
        return await self._outbox.in_time(self._connect())

    async def backlog(self) -> Backlog:
        return await self._outbox.in_time(self._backlog())

    async def advice(self) -> Sequence[str]:
        """What would make this server a better outbox, one line each; nothing where it is well set up."""
        return await self._outbox.in_time(self._advice())

    async def purger(self) -> MariadbPurger:
        must_be_kept(self._outbox.options)
        return await self._outbox.in_time(self._purger())

    async def parked(self) -> ParkedStore:
        return await self._outbox.in_time(self._parked())

    async def _parked(self) -> ParkedStore:
        connection = await self._outbox.open()
        try:
            await self._check_tables(connection)
        except BaseException:
            connection.end()
            raise
        return self._store(ParkedLine(self._outbox, connection))

    def _store(self, line: ParkedLine) -> ParkedStore:
        return SqlParkedStore(line, self._outbox.dialect, self._outbox.options)

    async def _purger(self) -> MariadbPurger:
        connection = await self._outbox.open()
        try:
            await self._check_tables(connection)
            texts = [getattr(self._outbox.statements, name) for name in _PURGES]
            await checks.prepare_all(self._outbox, connection, texts)
        except BaseException:
            connection.end()
            raise
        return MariadbPurger(self._outbox, connection)

    async def _connect(self) -> MariadbSession:
        reader, writer = await self._outbox.open_two(Connection.end)
        try:
            await self._check(reader, writer)
            return MariadbSession(self._outbox, reader, writer)
        except BaseException:
            reader.end()
            writer.end()
            raise

    async def _check(self, reader: Connection, writer: Connection) -> None:
        """Rows that are read in one server and settled in another would be published for ever."""
        one, other = await asyncio.gather(checks.server_of(reader), checks.server_of(writer))
        if one.same != other.same:
            raise Unavailable(f"{self._outbox.place} leads to two different servers", remedy="name one of them")
        checks.check_server(self._outbox, one)
        await self._check_tables(writer)
        said = self._outbox.statements
        await checks.prepare_all(self._outbox, reader, [getattr(said, name) for name in _READS])
        await checks.prepare_all(self._outbox, writer, self._written())

    async def _check_tables(self, connection: Connection) -> None:
        await checks.check_tables(self._outbox, connection)

    def _written(self) -> list[str]:
        """The statements of the connection that writes."""
        return [*(getattr(self._outbox.statements, name) for name in _WRITES), insert_at(self._outbox)]

    async def _backlog(self) -> Backlog:
        connection = await self._outbox.open()
        try:
            pending, delayed, parked, age_s = await connection.first(self._outbox.statements.backlog)
        finally:
            connection.end()
        oldest_age_s = None if age_s is None else max(0.0, float(age_s))
        return Backlog(pending=pending, delayed=delayed, parked=parked, oldest_age_s=oldest_age_s)

    async def _advice(self) -> Sequence[str]:
        connection = await self._outbox.open()
        try:
            return checks.advice(self._outbox, await checks.server_of(connection))
        finally:
            connection.end()
