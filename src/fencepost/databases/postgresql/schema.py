"""The tables of an outbox in PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from zlib import crc32

from fencepost.databases.postgresql.connection import Outbox
from fencepost.ports import DatabaseOptions
from fencepost.sql import schema as ddl
from fencepost.sql.revisions import LATEST

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
        return await self._in_transaction(self._apply)

    async def missing(self) -> Sequence[str]:
        return await self._in_transaction(self._missing)

    async def _in_transaction(self, work: Callable[[Any], Awaitable[list[str]]]) -> list[str]:
        async def call(connection: Any) -> list[str]:
            async with connection.transaction():
                return await work(connection)

        return await self._outbox.on_one(call)

    async def _missing(self, connection: Any) -> list[str]:
        return (await self._outbox.unmade(connection)).names

    async def _apply(self, connection: Any) -> list[str]:
        """Says only what is missing: CREATE ... IF NOT EXISTS asks for rights even where it has nothing to do."""
        await connection.execute(_LOCK, _LOCK_NUMBER)  # IF NOT EXISTS fails where two do it at the same time
        dialect, options = self._outbox.dialect, self._outbox.options
        create_schema = ddl.schema_statement(self._outbox.options.schema, dialect)
        if create_schema and not await connection.fetchval(_HAS_SCHEMA, options.schema):
            await connection.execute(create_schema)
        unmade = await self._outbox.unmade(connection)
        for statement in unmade.statements():
            await connection.execute(statement)
        return unmade.names
