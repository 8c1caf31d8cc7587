"""What a SQL lease store must know of its database: how to connect, how to wake, what shows that a session is gone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from fencepost.errors import AccessDenied, ConfigurationError, SchemaMissing, Unavailable
from fencepost.ports import LeaseOptions
from fencepost.sql.client import PostgresqlClient, SqliteClient
from fencepost.sql.faults import APPLY, READ_ONLY, fault_of
from fencepost.sql.link import Wire
from fencepost.sql.sessions import AdvisoryLocks, FileLocks, NoEvidence, SessionEvidence, files_can_be_locked
from fencepost.sql.tables import tables
from fencepost.words import as_written

Ring = Callable[[str | None], None]

RIGHTS = ("SELECT", "INSERT", "UPDATE")
SWITCHED_OFF = 'none: session_evidence = "off"'
POOLED = "none: a connection pooler stands before the server, so that a session is not its client's alone"


class Database(Protocol):
    """One kind of database. ``place`` names it in errors; ``evidence`` is for people to read."""

    engine: AsyncEngine
    table: sa.Table
    place: str
    evidence: str
    wrapped: bool
    """Whether even a single statement needs a transaction around it."""
    look_every_s: tuple[float, float]
    """Between two looks of a candidate at the row: at least and at most."""

    def abort(self) -> None:
        """End the driver's last connection at once, without waiting for the server."""
        ...

    async def begin(self, wire: Wire, ttl_s: float) -> None:
        """Begin the transaction that takes a lease of this length."""
        ...

    def renew_timeout_s(self, timeout_s: float, ttl_s: float) -> float:
        """The deadline of a renewal."""
        ...

    async def opened(self, wire: Wire, ring: Ring, lost: Callable[[], None]) -> SessionEvidence:
        """Get a new connection ready. ``ring`` is called with the name of a lease that was released, ``lost`` when the
        connection has ended. Raises SchemaMissing.
        """
        ...

    async def rehearse(self, wire: Wire) -> None:
        """Change nothing. Raises AccessDenied where this user may not write leases, Unavailable where nobody may."""
        ...

    async def notify(self, wire: Wire, name: str) -> None:
        """Ring at every candidate's, in other processes."""
        ...


class Postgresql(PostgresqlClient):
    """PostgreSQL through asyncpg."""

    # Below one statement a second, with the renewed attempts now and then that a candidate makes besides; and a killed
    # owner is replaced within two seconds, the take-over at the broker included.
    look_every_s = (1.05, 1.15)

    def __init__(self, options: LeaseOptions) -> None:
        super().__init__(options.url, options.timeout_s)
        self._options = options
        self._channel = ""
        self._wanted = wants_evidence(options.settings)
        self.evidence = "not known yet"
        self.wrapped = False
        self.table = tables(schema=options.schema, prefix=options.prefix).lease

    async def begin(self, wire: Wire, ttl_s: float) -> None:
        # A candidate that is paused while it has the row's lock must not keep the owner from renewing.
        timeout_ms = max(round(ttl_s / 4 * 1000), 100)
        await wire.say(f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {timeout_ms}")

    def renew_timeout_s(self, timeout_s: float, ttl_s: float) -> float:
        return min(timeout_s, ttl_s / 3)  # a connection that is cut half-open leaves time for another one

    async def opened(self, wire: Wire, ring: Ring, lost: Callable[[], None]) -> SessionEvidence:
        server_pid, schema = await self._where(wire)
        if schema is None:
            raise SchemaMissing(f"{self.place}: there is no table {self.table.fullname}", remedy=APPLY)
        space = f"{schema}.{self.table.name}"
        self._channel = f"fencepost_lease_{crc32(space.encode()):08x}"
        self.wrapped = server_pid != wire.driver.get_server_pid()
        if self.wrapped:
            self.evidence = POOLED
            return NoEvidence()

        def released(_connection: object, _pid: int, _channel: str, name: str) -> None:
            ring(name)

        wire.driver.add_termination_listener(lambda _connection: lost())
        await wire.driver.add_listener(self._channel, released)
        self.evidence = "an advisory lock of the owner's session" if self._wanted else SWITCHED_OFF
        return AdvisoryLocks(wire, space) if self._wanted else NoEvidence()

    async def rehearse(self, wire: Wire) -> None:
        named = self.engine.dialect.identifier_preparer.format_table(self.table)
        may = [sa.func.has_table_privilege(named, right).label(right) for right in RIGHTS]
        row = await wire.first(sa.select(sa.func.current_setting("transaction_read_only").label("frozen"), *may))
        assert row is not None  # noqa: S101 - a SELECT without FROM has one row
        if row.frozen == "on":
            raise Unavailable(
                f"{self.place}: no lease can be taken or kept in read-only transactions", remedy=READ_ONLY
            )
        if lacking := [right for right in RIGHTS if not getattr(row, right)]:
            what = f"{self.place}: this user may not {' and '.join(lacking)} {named}"
            raise AccessDenied(what, remedy=f"GRANT {', '.join(RIGHTS)} ON {named} TO ...")

    async def notify(self, wire: Wire, name: str) -> None:
        await wire.first(sa.select(sa.func.pg_notify(self._channel, name)))

    async def _where(self, wire: Wire) -> tuple[int, str | None]:
        """The process that answers, which behind a pooler is not the one that greeted us, and the table's schema."""
        named = self.engine.dialect.identifier_preparer.format_table(self.table)
        schema = sa.text(
            "SELECT pg_backend_pid() AS pid, (SELECT n.nspname FROM pg_catalog.pg_class c"
            " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(:named)) AS schema"
        )
        await wire.say("BEGIN")
        row = await wire.first(schema, named=named)
        await wire.say("COMMIT")
        assert row is not None  # noqa: S101 - a SELECT without FROM has one row
        return row.pid, row.schema


class Sqlite(SqliteClient):
    """SQLite through aiosqlite."""

    look_every_s = (0.2, 0.3)  # a file on this machine: a look costs microseconds
    wrapped = False

    def __init__(self, options: LeaseOptions) -> None:
        if options.schema is not None:
            raise ConfigurationError("SQLite has no schemas", remedy="leave schema out")
        super().__init__(options.url, options.timeout_s)
        self.table = tables(prefix=options.prefix).lease
        self._evidence, self.evidence = self._files(options.settings, self.path)

    def _files(self, settings: Mapping[str, object], path: Path) -> tuple[SessionEvidence, str]:
        if not wants_evidence(settings):
            return NoEvidence(), SWITCHED_OFF
        if not files_can_be_locked():
            return NoEvidence(), "none: this system has no file locks that end with a process"
        return FileLocks(path, self.table.name), "a lock file of the owner's process, beside the database"

    async def begin(self, wire: Wire, ttl_s: float) -> None:
        await wire.say("BEGIN IMMEDIATE")

    def renew_timeout_s(self, timeout_s: float, ttl_s: float) -> float:
        return timeout_s  # no connection can be half-open: it is busy, and a second one would be so too

    async def opened(self, wire: Wire, ring: Ring, lost: Callable[[], None]) -> SessionEvidence:
        await wire.first(sa.select(self.table).limit(0))
        return self._evidence

    async def rehearse(self, wire: Wire) -> None:
        for path in (self.path, self.path.parent):  # the journal stands beside the file
            if not os.access(path, os.W_OK):
                raise AccessDenied(
                    f"{path} is read-only for this process", remedy="let the user of this process write to it"
                )

    async def notify(self, wire: Wire, name: str) -> None:
        return  # candidates look at the lock file, which goes away, and at the row


async def rehearse_writes(wire: Wire, table: sa.Table, place: str, nowhere: Any) -> None:
    """Statements that find no row (``nowhere``) tell of rights, and of a server that is closed for writers."""
    same = sa.select(table).where(nowhere)
    try:
        await wire.count(sa.insert(table).from_select([c.name for c in table.c], same).inline())
        await wire.count(sa.update(table).values(token=table.c.token).where(nowhere))
    except DBAPIError as error:
        fault = fault_of(error, place)
        if not isinstance(fault, AccessDenied):
            raise
        named = wire.connection.dialect.identifier_preparer.format_table(table)
        raise AccessDenied(fault.what, remedy=f"GRANT {', '.join(RIGHTS)} ON {named} TO ...") from error


def wants_evidence(settings: Mapping[str, object]) -> bool:
    """The one setting. Raises ConfigurationError for any other."""
    unknown = sorted(settings.keys() - {"session_evidence"})
    if unknown:
        raise ConfigurationError(f"the SQL lease store has no setting {unknown[0]!r}", remedy="it has session_evidence")
    value = settings.get("session_evidence", "auto")
    if value not in {"auto", "off"}:
        raise ConfigurationError(f"session_evidence = {as_written(value)}", remedy='write "auto" or "off"')
    return value == "auto"
