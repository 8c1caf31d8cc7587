"""An application with an outbox in PostgreSQL, on asyncpg."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import asyncpg
import sqlalchemy as sa

from fencepost.ports import DatabaseOptions
from fencepost.testing.harness import Transaction
from fencepost.testing.writers.sql import OutboxTransaction, SqlWriter

_OTHERS = (
    "SELECT pid::text FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


class PostgresqlWriter(SqlWriter):
    """``fencepost.testing.harness.Writer`` says what each call promises."""

    concurrent = True

    def __init__(self, options: DatabaseOptions) -> None:
        url = sa.make_url(options.url)
        super().__init__(options, url.set(drivername="postgresql+asyncpg"))
        self._dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        connection = await asyncpg.connect(self._dsn)
        try:
            async with connection.transaction():
                yield OutboxTransaction(self.outbox, connection)
        finally:
            await connection.close()

    async def connections(self) -> Collection[str] | None:
        connection = await asyncpg.connect(self._dsn)
        try:
            return [pid for (pid,) in await connection.fetch(_OTHERS)]
        finally:
            await connection.close()

    async def cut(self, connections: Collection[str]) -> None:
        connection = await asyncpg.connect(self._dsn)
        try:
            for pid in connections:
                await connection.fetchval("SELECT pg_terminate_backend($1, 5000)", int(pid))
        finally:
            await connection.close()


def writer(options: DatabaseOptions) -> PostgresqlWriter:
    """The writer of one outbox."""
    return PostgresqlWriter(options)
