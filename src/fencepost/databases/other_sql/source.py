"""The source: opens sessions, after a look whether the server and the tables are what a relay needs."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from fencepost.databases.other_sql import checks
from fencepost.databases.other_sql.connection import Outbox, rows
from fencepost.databases.other_sql.parked import run
from fencepost.databases.other_sql.session import OtherSession
from fencepost.ports import Backlog, DatabaseOptions, ParkedStore
from fencepost.sql.other import KINDS, compiled_not_run
from fencepost.sql.parked_store import ServerLine, SqlParkedStore
from fencepost.sql.source import backlog_of


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
        return await self._outbox.kept(self._session, 2)

    async def backlog(self) -> Backlog:
        return await self._outbox.on_one(self._backlog)

    async def parked(self) -> ParkedStore:
        return await self._outbox.kept(self._parked)

    async def _parked(self, connection: AsyncConnection) -> ParkedStore:
        await checks.check(self._outbox, connection)
        line = ServerLine(self._outbox, connection, run)
        return SqlParkedStore(line, self._outbox.dialect, self._outbox.options)

    async def _session(self, reader: AsyncConnection, writer: AsyncConnection) -> OtherSession:
        await checks.check(self._outbox, writer)
        return OtherSession(self._outbox, reader, writer)

    async def _backlog(self, connection: AsyncConnection) -> Backlog:
        ((*numbers, oldest_s),) = await rows(connection, self._outbox.statements.backlog)
        return backlog_of((*map(int, numbers), None if oldest_s is None else -float(oldest_s)))
