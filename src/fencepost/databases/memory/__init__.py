"""An outbox in this process's memory: for tests, simulations and demonstrations. Nothing survives the process.

``memory://NAME`` names a database that everyone in the process shares. It behaves as a real one does (positions are
drawn when a message is added and never come back; transactions commit late, in any order, or never) and has plain
methods for trouble: fall back to an earlier snapshot, cut connections, and those of its gate. One event loop at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencepost import gate
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.databases.memory.parked import MemoryParked
from fencepost.databases.memory.rows import ParkedRow, Row, Snapshot
from fencepost.databases.memory.session import ERROR_CHARACTERS_MAX, MemorySession
from fencepost.databases.memory.shared import MemoryDatabase, Transaction
from fencepost.errors import ConfigurationError
from fencepost.ports import Backlog, DatabaseOptions

__all__ = [
    "ERROR_CHARACTERS_MAX",
    "MemoryDatabase",
    "MemoryParked",
    "MemorySchema",
    "MemorySession",
    "MemorySource",
    "ParkedRow",
    "Row",
    "Snapshot",
    "Transaction",
    "database",
    "forget",
    "schema",
    "source",
]


class MemorySource:
    """An outbox that a relay reads."""

    def __init__(self, database: MemoryDatabase, options: DatabaseOptions) -> None:
        self._database = database
        self._options = options

    async def connect(self) -> MemorySession:
        await self._database.gate.enter("connect", self._options.clock, self._options.timeout_s, gate.Bells())
        session = MemorySession(self._database, self._options)
        self._database._sessions[session] = None
        return session

    async def parked(self) -> MemoryParked:
        await self._database.gate.enter("connect", self._options.clock, self._options.timeout_s, gate.Bells())
        return MemoryParked(self._database, self._options)

    async def backlog(self) -> Backlog:
        await self._database.gate.enter("backlog", self._options.clock, self._options.timeout_s, gate.Bells())
        pending = [row for row in self._database.rows if row.available_at is None]
        oldest = min((row.message.occurred_at for row in pending), default=None)
        return Backlog(
            pending=len(pending),
            delayed=len(self._database.rows) - len(pending),
            parked=len(self._database.parked),
            oldest_age_s=None if oldest is None else (self._database.clock.now() - oldest).total_seconds(),
        )


class MemorySchema:
    """There are no tables: nothing to create, nothing that can be missing."""

    def statements(self) -> Sequence[str]:
        return ()

    async def apply(self) -> Sequence[str]:
        return ()

    async def missing(self) -> Sequence[str]:
        return ()


_DATABASES: dict[tuple[str, str | None, str], MemoryDatabase] = {}


def database(
    url: str, *, schema: str | None = None, prefix: str = "fencepost_", clock: Clock = SYSTEM_CLOCK
) -> MemoryDatabase:
    """The database of this URL, which everyone in the process shares; each schema and prefix has an outbox of its own.

    ``clock`` counts for the first who asks. Raises ConfigurationError where the URL is not memory://NAME.
    """
    scheme, _, name = url.partition("://")
    if scheme != "memory" or not name:
        raise ConfigurationError(f"{url!r} is not the URL of a database in memory", remedy="write memory://NAME")
    return _DATABASES.setdefault((url, schema, prefix), MemoryDatabase(url, clock))


def forget(url: str) -> None:
    """Drop a shared database, whatever it holds."""
    for place in [place for place in _DATABASES if place[0] == url]:
        _DATABASES.pop(place).cut()


def source(options: DatabaseOptions) -> MemorySource:
    """The plug-in's factory for sources."""
    return MemorySource(
        database(options.url, schema=options.schema, prefix=options.prefix, clock=options.clock), options
    )


def schema(options: DatabaseOptions) -> MemorySchema:
    """The plug-in's factory for schemas."""
    database(options.url, schema=options.schema, prefix=options.prefix, clock=options.clock)
    return MemorySchema()
