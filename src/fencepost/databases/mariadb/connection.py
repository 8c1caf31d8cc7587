"""Where an outbox in MariaDB or MySQL is, and how every connection to it is made and used."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from copy import copy
from typing import Any, Self, TypeVar

import asyncmy
import sqlalchemy as sa
from sqlalchemy.dialects.mysql import asyncmy as sqlalchemy_asyncmy

from fencepost.databases.mariadb.faults import ERRORS, fault_of
from fencepost.errors import ConnectionLost, DeadlineExceeded, FencepostError, Unavailable
from fencepost.ports import DatabaseOptions
from fencepost.sql import schema as ddl
from fencepost.sql.existing.columns import Described
from fencepost.sql.existing.statements import existing_statements
from fencepost.sql.faults import SILENT
from fencepost.sql.mariadb_address import ISOLATION, connect_arguments, place_of, session_settings
from fencepost.sql.source import source_statements
from fencepost.sql.tables import tables

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]

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


class Outbox:
    """One outbox. ``place`` names it in errors, without a password."""

    def __init__(self, options: DatabaseOptions) -> None:
        self.options = options
        self._arguments = connect_arguments(options.url)
        self.place = place_of(options.url)
        self.dialect = sqlalchemy_asyncmy.dialect(paramstyle="qmark")
        existing = options.table is not None
        marked = options.settle == "mark" and not existing
        self.tables = tables(schema=options.schema, prefix=options.prefix, marked=marked, existing=existing)
        self.statements = source_statements(self.tables, self.dialect)
        self.database: str = options.schema or self._arguments["database"]

    def quoted(self, table: sa.Table) -> str:
        """A table's name as it is written in a statement."""
        return ddl.quoted(table, self.dialect)

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

    def described(self, found: Described) -> Self:
        """The same, with the statements of an existing table. Raises FixError where it cannot be an outbox."""
        other = copy(self)
        other.statements = existing_statements(self.place, self.options, self.tables, found, self.dialect)
        return other

    async def lacking(self, connection: Connection, tables: Sequence[sa.Table]) -> Mapping[str, str]:
        """What tables that are there lack of their columns and indexes, and the DDL that adds it."""
        found: dict[str, str] = {}
        for table in tables:
            place = (self.database, table.name)
            given = [[str(name) for (name,) in await connection.rows(text, *place)] for text in (_COLUMNS, _INDEXES)]
            found |= ddl.incomplete(table, self.dialect, *given)
        return found

    async def in_time(self, call: Awaitable[T]) -> T:
        """Await what works on new connections of its own. Raises FixError, Unavailable or DeadlineExceeded."""
        try:
            async with asyncio.timeout(self.options.timeout_s):
                return await call
        except FencepostError:
            raise
        except ERRORS as error:
            fault = self.fault_of(error)
            if isinstance(fault, ConnectionLost):
                fault = Unavailable(fault.what, remedy=fault.remedy)
            raise fault from error

    def fault_of(self, error: BaseException) -> FencepostError:
        """The family of an error. One without a text is our own deadline."""
        if isinstance(error, TimeoutError) and not str(error):
            text = f"{self.place} did not answer within {self.options.timeout_s:g} s"
            return DeadlineExceeded(text, remedy=SILENT)
        return fault_of(error, self.place)
