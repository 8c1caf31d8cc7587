"""The source: opens sessions, after a look whether the server and the tables are what a relay needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from fencepost.databases.other_sql import checks
from fencepost.databases.other_sql.connection import Outbox, leave, rows
from fencepost.databases.other_sql.parked import ParkedLine
from fencepost.databases.other_sql.session import OtherSession
from fencepost.ports import Backlog, DatabaseOptions, ParkedStore
from fencepost.sql.other import KINDS, compiled_not_run
from fencepost.sql.parked_store import SqlParkedStore


class OtherSource:
    """An outbox that a relay reads."""

    marks_doubt = True

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)

    @property
    def limits(self) -> Sequence[str]:
        """What this outbox does not give, one line each; the first says that none of it was ever run."""
        return (compiled_not_run(self._outbox.name), *KINDS[self._outbox.name].limits)

    async def connect(self) -> OtherSession:
        return await self._outbox.in_time(self._connect())

    async def backlog(self) -> Backlog:
        return await self._outbox.on_one(self._backlog)

    async def parked(self) -> ParkedStore:
        return await self._outbox.in_time(self._parked())

    async def _parked(self) -> ParkedStore:
        connection = await self._outbox.open()
        try:
            await checks.check(self._outbox, connection)
        except BaseException:
            await leave(connection)
            raise
        line = ParkedLine(self._outbox, connection)
        return SqlParkedStore(line, self._outbox.dialect, self._outbox.options)

    async def _connect(self) -> OtherSession:
        reader, writer = await self._open_two()
        try:
            await checks.check(self._outbox, writer)
        except BaseException:
            await asyncio.gather(leave(reader), leave(writer))
            raise
        return OtherSession(self._outbox, reader, writer)

    async def _open_two(self) -> tuple[AsyncConnection, AsyncConnection]:
        reader = await self._outbox.open()
        try:
            return reader, await self._outbox.open()
        except BaseException:
            await leave(reader)
            raise

    async def _backlog(self, connection: AsyncConnection) -> Backlog:
        ((pending, delayed, parked, oldest_s),) = await rows(connection, self._outbox.statements.backlog)
        oldest_age_s = None if oldest_s is None else max(0.0, -float(oldest_s))
        return Backlog(pending=int(pending), delayed=int(delayed), parked=int(parked), oldest_age_s=oldest_age_s)
