"""The tables of an outbox in MariaDB or MySQL."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.databases.mariadb.connection import Connection, Outbox
from fencepost.ports import DatabaseOptions
from fencepost.sql import schema as ddl

_LOCK = "SELECT GET_LOCK('fencepost schema apply', ?)"
_HAS_SCHEMA = "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?"


class MariadbSchema:
    """``fencepost.ports.Schema`` says what each call promises. Each statement commits by itself here."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)

    def statements(self) -> Sequence[str]:
        return ddl.statements(self._outbox.tables, self._outbox.dialect)

    async def apply(self) -> Sequence[str]:
        return await self._outbox.on_one(self._apply)

    async def missing(self) -> Sequence[str]:
        return await self._outbox.on_one(self._missing)

    async def _missing(self, connection: Connection) -> list[str]:
        return (await self._outbox.unmade(connection)).names

    async def _apply(self, connection: Connection) -> list[str]:
        """Says only what is missing: CREATE ... IF NOT EXISTS asks for rights even where it has nothing to do."""
        dialect, options = self._outbox.dialect, self._outbox.options
        create_schema = ddl.schema_statement(self._outbox.options.schema, dialect)
        if create_schema and await connection.first(_HAS_SCHEMA, options.schema) == (0,):
            await connection.say(create_schema)
        await connection.first(_LOCK, self._outbox.options.timeout_s)  # not all that is said here may be said twice
        unmade = await self._outbox.unmade(connection)
        for statement in unmade.statements():
            await connection.say(statement)
        return unmade.names
