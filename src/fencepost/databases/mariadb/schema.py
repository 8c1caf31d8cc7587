"""The tables of an outbox in MariaDB or MySQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import sqlalchemy as sa

from fencepost.databases.mariadb.connection import Connection, Outbox
from fencepost.ports import DatabaseOptions
from fencepost.sql import schema as ddl

_THERE = "SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND table_type = 'BASE TABLE'"
_LOCK = "SELECT GET_LOCK('fencepost schema apply', ?)"
_HAS_SCHEMA = "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?"


class MariadbSchema:
    """``fencepost.ports.Schema`` says what each call promises. Each statement commits by itself here."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)

    def statements(self) -> Sequence[str]:
        return ddl.statements(self._outbox.tables, self._outbox.dialect)

    async def apply(self) -> Sequence[str]:
        return await self._outbox.in_time(self._on_one(self._apply))

    async def missing(self) -> Sequence[str]:
        return await self._outbox.in_time(self._on_one(self._missing))

    async def _on_one(self, work: Callable[[Connection], Awaitable[list[str]]]) -> list[str]:
        connection = await self._outbox.open()
        try:
            return await work(connection)
        finally:
            connection.end()

    async def _missing(self, connection: Connection) -> list[str]:
        missing = await self._missing_tables(connection)
        return [*(table.fullname for table in missing), *await self._lacking(connection, missing)]

    async def _lacking(self, connection: Connection, missing: Sequence[sa.Table]) -> Mapping[str, str]:
        there = [table for table in ddl.all_tables(self._outbox.tables) if table not in missing]
        return await self._outbox.lacking(connection, there)

    async def _missing_tables(self, connection: Connection) -> list[sa.Table]:
        there = {str(name) for (name,) in await connection.rows(_THERE, self._outbox.database)}
        folded = {name.lower() for name in there}  # where the server's file system knows no case, nor do its tables
        tables = ddl.all_tables(self._outbox.tables)
        return [table for table in tables if table.name not in there and table.name.lower() not in folded]

    async def _apply(self, connection: Connection) -> list[str]:
        """Says only what is missing: CREATE ... IF NOT EXISTS asks for rights even where it has nothing to do."""
        dialect, options = self._outbox.dialect, self._outbox.options
        create_schema = ddl.schema_statement(self._outbox.tables, dialect)
        if create_schema and await connection.first(_HAS_SCHEMA, options.schema) == (0,):
            await connection.say(create_schema)
        await connection.first(_LOCK, self._outbox.options.timeout_s)  # not all that is said here may be said twice
        missing = await self._missing_tables(connection)
        lacking = await self._lacking(connection, missing)
        made = [text for table in missing for text in ddl.table_statements(table, dialect)]
        for statement in [*made, *ddl.repairs(lacking, self._outbox.place)]:
            await connection.say(statement)
        return [*(table.fullname for table in missing), *lacking]
