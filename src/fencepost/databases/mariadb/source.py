"""The source: opens sessions, after a look whether the server, the tables and the rights are what a relay needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fencepost.databases.mariadb import checks
from fencepost.databases.mariadb.connection import Connection, Outbox
from fencepost.databases.mariadb.parked import run
from fencepost.databases.mariadb.purger import MariadbPurger
from fencepost.databases.mariadb.session import MariadbSession, insert_at
from fencepost.errors import Unavailable
from fencepost.ports import Backlog, ParkedStore
from fencepost.sql.existing.parked import parked_store
from fencepost.sql.parked_store import ServerLine
from fencepost.sql.source import backlog_of, must_be_kept

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

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def connect(self) -> MariadbSession:
        return await self._outbox.kept(self._session, 2)

    async def backlog(self) -> Backlog:
        return backlog_of(await self._outbox.on_one(lambda c: c.first(self._outbox.statements.backlog)))

    async def advice(self) -> Sequence[str]:
        """What would make this server a better outbox, one line each; nothing where it is well set up."""
        return checks.advice(self._outbox, await self._outbox.on_one(checks.server_of))

    async def purger(self) -> MariadbPurger:
        must_be_kept(self._outbox.options)
        return await self._outbox.kept(self._purger)

    async def parked(self) -> ParkedStore:
        return await self._outbox.kept(self._parked)

    async def _parked(self, connection: Connection) -> ParkedStore:
        await self._check_tables(connection)
        return parked_store(ServerLine(self._outbox, connection, run), self._outbox)

    async def _purger(self, connection: Connection) -> MariadbPurger:
        await self._check_tables(connection)
        texts = [getattr(self._outbox.statements, name) for name in _PURGES]
        await checks.prepare_all(self._outbox, connection, texts)
        return MariadbPurger(self._outbox, connection)

    async def _session(self, reader: Connection, writer: Connection) -> MariadbSession:
        """Rows that are read in one server and settled in another would be published for ever."""
        one, other = await asyncio.gather(checks.server_of(reader), checks.server_of(writer))
        if one.same != other.same:
            raise Unavailable(f"{self._outbox.place} leads to two different servers", remedy="name one of them")
        checks.check_server(self._outbox, one)
        await self._check_tables(writer)
        said = self._outbox.statements
        await checks.prepare_all(self._outbox, reader, [getattr(said, name) for name in _READS])
        await checks.prepare_all(self._outbox, writer, self._written())
        return MariadbSession(self._outbox, reader, writer)

    async def _check_tables(self, connection: Connection) -> None:
        await checks.check_tables(self._outbox, connection)

    def _written(self) -> list[str]:
        """The statements of the connection that writes."""
        return [*(getattr(self._outbox.statements, name) for name in _WRITES), insert_at(self._outbox)]
