"""An application as of CockroachDB, on a PostgreSQL, whose connections can be cut."""

from __future__ import annotations

from collections.abc import Collection

from fencepost.ports import DatabaseOptions
from fencepost.testing.writers.other_sql import OtherSqlWriter
from fencepost.testing.writers.postgresql import PostgresqlWriter


class Writer(OtherSqlWriter):
    def __init__(self, options: DatabaseOptions) -> None:
        super().__init__(options)
        self._server = PostgresqlWriter(options)

    async def connections(self) -> Collection[str] | None:
        return await self._server.connections()

    async def cut(self, connections: Collection[str]) -> None:
        await self._server.cut(connections)


def writer(options: DatabaseOptions) -> Writer:
    return Writer(options)
