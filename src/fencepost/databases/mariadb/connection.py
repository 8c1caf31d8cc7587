"""Where an outbox in MariaDB or MySQL is, and how every connection to it is made and used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncmy
import sqlalchemy as sa
from sqlalchemy.dialects.mysql import asyncmy as sqlalchemy_asyncmy

from fencepost.databases.mariadb.faults import ERRORS, fault_of
from fencepost.errors import FencepostError
from fencepost.ports import DatabaseOptions
from fencepost.sql import schema as ddl
from fencepost.sql.mariadb_address import ISOLATION, connect_arguments, place_of, session_settings
from fencepost.sql.outbox import drawn_rows
from fencepost.sql.place import OnServer, SqlOutbox

Rows = Sequence[tuple[Any, ...]]

_THERE = "SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND table_type = 'BASE TABLE'"
_COLUMNS = "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?"
_INDEXES = "SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?"


class Connection:
    """One connection in autocommit. A statement with arguments is prepared once, and written with ``?``."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self._prepared: dict[str, Any] = {}

    async def prepare(self, *texts: str) -> None:
        """Prepare statements, which tells whether their tables are there and this user may run them."""
        for text in texts:
            if text not in self._prepared:
                self._prepared[text] = await self.driver.prepare(text)

    async def rows(self, text: str, *arguments: Any) -> Rows:
        """The rows of a query."""
        return (await self._execute(text, arguments)).rows or ()

    async def first(self, text: str, *arguments: Any) -> Any:
        """The first row of a query, None where there is none."""
        return next(iter(await self.rows(text, *arguments)), None)

    async def drawn(self, text: str, *arguments: Any) -> Rows:
        """The rows of a query, or the number that a statement without rows has drawn, as one row."""
        result = await self._execute(text, arguments)
        return drawn_rows(result.insert_id) if result.rows is None else result.rows

    async def change(self, text: str, *arguments: Any) -> int:
        """How many rows a statement changed."""
        changed: int = (await self._execute(text, arguments)).affected_rows
        return changed

    async def say(self, text: str) -> None:
        """A statement as it is, without arguments and without preparation."""
        async with self.driver.cursor() as cursor:
            await cursor.execute(text)

    async def closed(self) -> None:
        """Return when the connection has ended, from whichever side."""
        await self.driver._proto.wait_closed()  # asyncmy tells it nowhere else

    def end(self) -> None:
        """Close at once, under a call too."""
        self.driver.close()

    async def leave(self) -> None:
        """Say goodbye and close."""
        await self.driver.ensure_closed()

    async def _execute(self, text: str, arguments: tuple[Any, ...]) -> Any:
        await self.prepare(text)
        return await self._prepared[text].execute(arguments)


class Outbox(SqlOutbox, OnServer):
    """One outbox."""

    errors = ERRORS

    def __init__(self, options: DatabaseOptions) -> None:
        self._arguments = connect_arguments(options.url)
        super().__init__(options, place_of(options.url), sqlalchemy_asyncmy.dialect(paramstyle="qmark"))
        self.database: str = options.schema or self._arguments["database"]

    async def open(self) -> Connection:
        """A new connection. Whoever calls keeps the deadline and maps the errors."""
        timeout_s = self.options.timeout_s
        driver = await asyncmy.connect(**self._arguments, connect_timeout=timeout_s)
        connection = Connection(driver)
        try:
            await connection.say(ISOLATION)
            await connection.say(session_settings(timeout_s))
        except BaseException:
            connection.end()
            raise
        return connection

    async def end(self, connection: Connection) -> None:
        """See OnServer."""
        connection.end()

    async def missing(self, connection: Connection) -> list[sa.Table]:
        """See SqlOutbox."""
        there = {str(name) for (name,) in await connection.rows(_THERE, self.database)}
        folded = {name.lower() for name in there}  # where the server's file system knows no case, nor do its tables
        tables = ddl.all_tables(self.tables)
        return [table for table in tables if table.name not in there and table.name.lower() not in folded]

    async def parts(self, connection: Connection, table: sa.Table) -> tuple[list[str], list[str]]:
        """See SqlOutbox."""
        place = (self.database, table.name)
        columns, indexes = await connection.rows(_COLUMNS, *place), await connection.rows(_INDEXES, *place)
        return [str(name) for (name,) in columns], [str(name) for (name,) in indexes]

    def family(self, error: BaseException) -> FencepostError:
        """See OnServer."""
        return fault_of(error, self.place)
