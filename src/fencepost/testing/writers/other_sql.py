"""An application with an outbox in Oracle, SQL Server or CockroachDB, on SQLAlchemy: compiled, not run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from fencepost.outbox import AsyncOutbox
from fencepost.ports import DatabaseOptions
from fencepost.sql.other_engine import engine_in
from fencepost.sql.schema_other import sequence_of
from fencepost.sql.tables import tables
from fencepost.testing.harness import Transaction
from fencepost.testing.writers.sql import OutboxTransaction, SqlWriter


class OtherSqlWriter(SqlWriter):
    """``fencepost.testing.harness.Writer`` says what each call promises."""

    concurrent = True

    def __init__(self, options: DatabaseOptions) -> None:
        self.outbox = AsyncOutbox(schema=options.schema, prefix=options.prefix, max_bytes=None)
        self._tables = tables(schema=options.schema, prefix=options.prefix)
        self._engine = engine_in(options.url)
        self.empty_payloads = self._engine.dialect.name != "oracle"

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._engine.begin() as connection:
            yield OutboxTransaction(self.outbox, connection)

    async def close(self) -> None:
        t = self._tables
        drops: list[sa.schema.ExecutableDDLElement] = [
            sa.schema.DropTable(table) for table in t.metadata.tables.values()
        ]
        if self._engine.dialect.name == "oracle":
            drops.append(sa.schema.DropSequence(sa.Sequence(sequence_of(t.outbox), schema=t.outbox.schema)))
        for drop in drops:
            with suppress(DBAPIError):  # it is not there: not each of them knows IF EXISTS
                async with self._engine.begin() as connection:
                    await connection.execute(drop)
        await self._engine.dispose()


def writer(options: DatabaseOptions) -> OtherSqlWriter:
    """The writer of one outbox."""
    return OtherSqlWriter(options)
