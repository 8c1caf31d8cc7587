"""The tables of an outbox in SQLite."""

from __future__ import annotations

from collections.abc import Sequence

import aiosqlite

from fencepost.databases.sqlite.connection import Outbox
from fencepost.ports import DatabaseOptions
from fencepost.sql import schema as ddl
from fencepost.sql.revisions import LATEST


class SqliteSchema:
    """``fencepost.ports.Schema`` says what each call promises. ``apply`` creates the file where there is none."""

    revision = LATEST

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)

    def statements(self) -> Sequence[str]:
        return ddl.statements(self._outbox.tables, self._outbox.dialect)

    async def apply(self) -> Sequence[str]:
        self._outbox.check_writable()
        return await self._outbox.on_one(self._apply, create=True)

    async def missing(self) -> Sequence[str]:
        if self._outbox.identity() is None:
            self._outbox.check_folder()
            return [table.name for table in ddl.all_tables(self._outbox.tables)]
        return await self._outbox.on_one(self._missing)

    async def _missing(self, connection: aiosqlite.Connection) -> list[str]:
        return (await self._outbox.unmade(connection)).names

    async def _apply(self, connection: aiosqlite.Connection) -> Sequence[str]:
        await connection.execute("BEGIN IMMEDIATE")
        unmade = await self._outbox.unmade(connection)
        for statement in unmade.statements():
            await connection.execute(statement)
        await connection.commit()
        return unmade.names
