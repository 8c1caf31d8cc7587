"""The source: opens sessions, after a look whether the server, the tables and the rights are what a relay needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fencepost.databases.postgresql.connection import Outbox
from fencepost.databases.postgresql.parked import run
from fencepost.databases.postgresql.purger import PostgresqlPurger
from fencepost.databases.postgresql.session import PostgresqlSession
from fencepost.errors import AccessDenied, ConfigurationError, SchemaMissing, Unavailable
from fencepost.ports import Backlog, ParkedStore
from fencepost.sql import schema as ddl
from fencepost.sql.existing.parked import parked_store
from fencepost.sql.faults import APPLY, READ_ONLY
from fencepost.sql.parked_store import ServerLine
from fencepost.sql.source import backlog_of, must_be_kept

_SERVER = """
    SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
        pg_postmaster_start_time()::text || coalesce(inet_server_port(), 0)
"""

_RIGHTS = """
    SELECT name, needed, has_table_privilege(to_regclass(name)::oid, needed)
    FROM unnest($1::text[], $2::text[]) AS rights (name, needed)
"""

_SEQUENCE = """
    SELECT name, has_sequence_privilege(name::regclass::oid, 'USAGE'),
        seqcache = 1 AND seqincrement > 0 AND NOT seqcycle
    FROM pg_get_serial_sequence($1, 'seq') AS found (name)
    LEFT JOIN pg_sequence ON seqrelid = name::regclass::oid
"""


class PostgresqlSource:
    """An outbox that a relay reads."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def connect(self) -> PostgresqlSession:
        return await self._outbox.kept(self._session, 2)

    async def backlog(self) -> Backlog:
        return backlog_of(await self._outbox.on_one(lambda c: c.fetchrow(self._outbox.statements.backlog)))

    async def purger(self) -> PostgresqlPurger:
        must_be_kept(self._outbox.options)
        return await self._outbox.kept(self._purger)

    async def parked(self) -> ParkedStore:
        return await self._outbox.kept(self._parked)

    async def _parked(self, connection: Any) -> ParkedStore:
        await self._check_tables(connection)
        return parked_store(ServerLine(self._outbox, connection, run), self._outbox)

    async def _purger(self, connection: Any) -> PostgresqlPurger:
        await self._check_tables(connection)
        return PostgresqlPurger(self._outbox, connection)

    async def _session(self, reader: Any, writer: Any) -> PostgresqlSession:
        await self._check_servers(reader, writer)
        await self._check_tables(writer)
        session = PostgresqlSession(self._outbox, reader, writer, await self._check_sequence(writer))
        await session.begin()
        return session

    async def _check_servers(self, reader: Any, writer: Any) -> None:
        """Rows that are read in one server and settled in another would be published for ever."""
        answers = await asyncio.gather(reader.fetchrow(_SERVER), writer.fetchrow(_SERVER))
        (standby, frozen, one), (_, _, other) = answers
        if standby or frozen:
            why = "is a read-only standby" if standby else "gives this user read-only transactions"
            raise Unavailable(f"{self._outbox.place} {why}", remedy=READ_ONLY)
        if one != other:
            raise Unavailable(f"{self._outbox.place} leads to two different servers", remedy="name one of them")

    def _needed(self) -> dict[str, tuple[str, ...]]:
        """Tables, as a statement names them, and the rights that a relay must have."""
        t, reads_and_writes = self._outbox.tables, ("SELECT", "INSERT", "UPDATE")
        needed = {t.outbox: ("SELECT", "UPDATE", "DELETE"), t.parked: reads_and_writes, t.lane: reads_and_writes}
        return {self._outbox.quoted(table): rights for table, rights in needed.items()}

    async def _check_tables(self, connection: Any) -> None:
        pairs = [(name, right) for name, rights in self._needed().items() for right in rights]
        rows = await connection.fetch(_RIGHTS, [name for name, _ in pairs], [right for _, right in pairs])
        missing = sorted({name for name, _, granted in rows if granted is None})
        if missing:
            raise SchemaMissing(f"{self._outbox.place} has no table {', '.join(missing)}", remedy=APPLY)
        if lacking := await self._outbox.lacking(connection, ddl.of_a_relay(self._outbox.tables)):
            raise SchemaMissing(f"{self._outbox.place} lacks {', '.join(lacking)}", remedy=APPLY)
        if denied := [(name, right) for name, right, granted in rows if not granted]:
            raise self._denied(_grants(denied))

    async def _check_sequence(self, connection: Any) -> str:
        table = self._outbox.quoted(self._outbox.tables.outbox)
        name, usable, grows = await connection.fetchrow(_SEQUENCE, table)
        if name is None:
            raise SchemaMissing(f"{self._outbox.place}: no sequence numbers {table}.seq", remedy=APPLY)
        if not usable:
            raise self._denied(f"GRANT USAGE ON SEQUENCE {name} TO ...")
        if not grows:  # a session that keeps numbers for later hands out positions below what has been committed
            raise ConfigurationError(
                f"{self._outbox.place}: the sequence {name} does not hand out ever larger numbers, one at a time: "
                "the order of a key would be lost",
                remedy=f"ALTER SEQUENCE {name} INCREMENT BY 1 CACHE 1 NO CYCLE",
            )
        return str(name)

    def _denied(self, remedy: str) -> AccessDenied:
        return AccessDenied(f"{self._outbox.place}: this user may not do all that a relay does", remedy=remedy)


def _grants(denied: Sequence[tuple[str, str]]) -> str:
    """The statements that give what is lacking, (table, right) by (table, right): one for all tables that lack the
    same.
    """
    by_table: dict[str, list[str]] = {}
    for table, right in denied:
        by_table.setdefault(table, []).append(right)
    by_rights: dict[str, list[str]] = {}
    for table, rights in by_table.items():
        by_rights.setdefault(", ".join(rights), []).append(table)
    return "; ".join(f"GRANT {rights} ON {', '.join(tables)} TO ..." for rights, tables in by_rights.items())
