"""The tables of an outbox in PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from zlib import crc32

import sqlalchemy as sa

from fencepost.databases.postgresql.connection import Outbox
from fencepost.ports import DatabaseOptions
from fencepost.sql import schema as ddl
from fencepost.sql.revisions import LATEST

_ABSENT = "SELECT name FROM unnest($1::text[]) AS t (name) WHERE to_regclass(name) IS NULL"
_HAS_SCHEMA = "SELECT count(*) FROM pg_namespace WHERE nspname = $1"
_LOCK = "SELECT pg_advisory_xact_lock($1)"
_LOCK_NUMBER = crc32(b"fencepost schema apply")


class PostgresqlSchema:
    """``fencepost.ports.Schema`` says what each call promises."""

    revision = LATEST

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)

    def statements(self) -> Sequence[str]:
        return ddl.statements(self._outbox.tables, self._outbox.dialect)

    async def apply(self) -> Sequence[str]:
        return await self._outbox.in_time(self._in_transaction(self._apply))

    async def missing(self) -> Sequence[str]:
        return await self._outbox.in_time(self._in_transaction(self._missing))

    async def _in_transaction(self, work: Callable[[Any], Awaitable[list[str]]]) -> list[str]:
        connection = await self._outbox.open()
        try:
            async with connection.transaction():
                return await work(connection)
        finally:
            connection.terminate()

    async def _missing(self, connection: Any) -> list[str]:
        missing = await self._missing_tables(connection)
        return [*(table.fullname for table in missing), *await self._lacking(connection, missing)]

    async def _lacking(self, connection: Any, missing: Sequence[sa.Table]) -> Mapping[str, str]:
        there = [table for table in ddl.all_tables(self._outbox.tables) if table not in missing]
        return await self._outbox.lacking(connection, there)

    async def _missing_tables(self, connection: Any) -> list[sa.Table]:
        tables = ddl.all_tables(self._outbox.tables)
        rows = await connection.fetch(_ABSENT, [self._outbox.quoted(table) for table in tables])
        absent = {name for (name,) in rows}
        return [table for table in tables if self._outbox.quoted(table) in absent]

    async def _apply(self, connection: Any) -> list[str]:
        """Says only what is missing: CREATE ... IF NOT EXISTS asks for rights even where it has nothing to do."""
        await connection.execute(_LOCK, _LOCK_NUMBER)  # IF NOT EXISTS fails where two do it at the same time
        dialect, options = self._outbox.dialect, self._outbox.options
        create_schema = ddl.schema_statement(self._outbox.tables, dialect)
        if create_schema and not await connection.fetchval(_HAS_SCHEMA, options.schema):
            await connection.execute(create_schema)
        missing = await self._missing_tables(connection)
        lacking = await self._lacking(connection, missing)
        made = [text for table in missing for text in ddl.table_statements(table, dialect)]
        for statement in [*made, *ddl.repairs(lacking, self._outbox.place)]:
            await connection.execute(statement)
        return [*(table.fullname for table in missing), *lacking]
