"""The tables of an outbox in Oracle, SQL Server or CockroachDB."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fencepost.databases.other_sql.connection import Outbox
from fencepost.ports import DatabaseOptions
from fencepost.sql import schema as ddl


class OtherSchema:
    """``fencepost.ports.Schema`` says what each call promises. Each statement commits by itself here."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)

    def statements(self) -> Sequence[str]:
        return ddl.statements(self._outbox.tables, self._outbox.dialect)

    async def apply(self) -> Sequence[str]:
        return await self._outbox.on_one(self._apply)

    async def missing(self) -> Sequence[str]:
        return [table.fullname for table in await self._outbox.on_one(self._missing)]

    async def _missing(self, connection: AsyncConnection) -> list[sa.Table]:
        tables = ddl.all_tables(self._outbox.tables)
        return [table for table in tables if not await self._outbox.is_there(connection, table)]

    async def _apply(self, connection: AsyncConnection) -> list[str]:
        """Says only what is missing: CREATE asks for rights even where it has nothing to do."""
        dialect = self._outbox.dialect
        missing = await self._missing(connection)
        create_schema = ddl.schema_statement(self._outbox.options.schema, dialect) if missing else None
        texts = [text for table in missing for text in ddl.table_statements(table, dialect)]
        for text in [*([create_schema] if create_schema else []), *texts]:
            await connection.exec_driver_sql(text)
            await connection.commit()
        return [table.fullname for table in missing]
