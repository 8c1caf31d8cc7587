"""An existing table as an outbox that a relay reads, in any SQL database: it is looked at anew for each connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fencepost.errors import ConfigurationError
from fencepost.existing import ExistingTable
from fencepost.ports import Backlog, ParkedStore, Purger, Session
from fencepost.sql.existing.checks import limits
from fencepost.sql.existing.session import ExistingSession, Failures


class TableSource(Protocol):
    """A source of the database, with the statements of the table."""

    async def connect(self) -> Session: ...

    async def backlog(self) -> Backlog: ...

    async def purger(self) -> Purger: ...

    async def parked(self) -> ParkedStore: ...


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at the table brought. ``warnings`` are one line each."""

    source: TableSource
    warnings: Sequence[str]


class ExistingSource:
    """``look`` checks the table; it raises FixError where it cannot be an outbox."""

    def __init__(self, table: ExistingTable, look: Callable[[], Awaitable[Looked]]) -> None:
        self._table, self._look = table, look
        self._failures: Failures = {}

    @property
    def limits(self) -> Sequence[str]:
        """What this outbox does not give, one line each."""
        return limits(self._table)

    @property
    def marks_doubt(self) -> bool:
        """Whether messages can be marked as being sent, without which a plain broker could not be used."""
        return self._table.in_doubt is not None

    async def connect(self) -> Session:
        looked = await self._look()
        return ExistingSession(await looked.source.connect(), self._table, self._failures)

    async def backlog(self) -> Backlog:
        return await (await self._look()).source.backlog()

    async def advice(self) -> Sequence[str]:
        """What would make the table a better outbox, one line each."""
        return (await self._look()).warnings

    async def parked(self) -> ParkedStore:
        return await (await self._look()).source.parked()

    async def purger(self) -> Purger:
        looked = await self._look()
        if self._table.settled_at is None:
            raise ConfigurationError(
                f"nobody knows when rows of {self._table.table} were settled",
                remedy="name the column that is to keep it: [existing] settled_at",
            )
        return await looked.source.purger()
