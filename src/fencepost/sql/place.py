"""Where an outbox in a SQL database is: what the plug-ins of these databases share. Each adds how it connects."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from fencepost.errors import ConnectionLost, DeadlineExceeded, FencepostError, Unavailable
from fencepost.faults import UNREACHABLE
from fencepost.ports import DatabaseOptions
from fencepost.sql import schema as ddl
from fencepost.sql.existing.columns import Described
from fencepost.sql.existing.statements import existing_statements
from fencepost.sql.faults import SILENT
from fencepost.sql.source import source_statements
from fencepost.sql.tables import tables

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unmade:
    """What of an outbox is not there: whole tables, and what others lack (names, and the DDL that adds each)."""

    outbox: SqlOutbox
    tables: Sequence[sa.Table]
    lacking: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """What is not there, by name."""
        return [*(table.fullname for table in self.tables), *self.lacking]

    def statements(self) -> list[str]:
        """The DDL that makes it. Raises FixError where a column cannot be added to the rows that are there."""
        made = [text for table in self.tables for text in ddl.table_statements(table, self.outbox.dialect)]
        return [*made, *ddl.repairs(self.lacking, self.outbox.place)]


class SqlOutbox(ABC):
    """The tables of one outbox, and the statements for them. ``place`` names it in errors, without a password."""

    def __init__(self, options: DatabaseOptions, place: str, dialect: Dialect) -> None:
        self.options, self.place, self.dialect = options, place, dialect
        existing = options.table is not None
        marked = options.settle == "mark" and not existing
        self.tables = tables(schema=options.schema, prefix=options.prefix, marked=marked, existing=existing)
        self.statements = source_statements(self.tables, dialect)

    def quoted(self, table: sa.Table) -> str:
        """A table's name as it is written in a statement."""
        return ddl.quoted(table, self.dialect)

    def described(self, found: Described) -> Self:
        """The same, with the statements of an existing table. Raises FixError where it cannot be an outbox."""
        other = copy(self)
        other.statements = existing_statements(self.place, self.options, self.tables, found, self.dialect)
        return other

    async def lacking(self, connection: Any, tables: Sequence[sa.Table]) -> Mapping[str, str]:
        """What tables that are there lack of their columns and indexes, and the DDL that adds it."""
        found: dict[str, str] = {}
        for table in tables:
            found |= ddl.incomplete(table, self.dialect, *await self.parts(connection, table))
        return found

    async def unmade(self, connection: Any) -> Unmade:
        """Compare what is there with what an outbox has."""
        missing = await self.missing(connection)
        there = [table for table in ddl.all_tables(self.tables) if table not in missing]
        return Unmade(self, missing, await self.lacking(connection, there))

    @abstractmethod
    async def missing(self, connection: Any) -> list[sa.Table]:
        """The tables that do not exist."""

    @abstractmethod
    async def parts(self, connection: Any, table: sa.Table) -> tuple[Collection[str], Collection[str]]:
        """The names of the columns and of the indexes that a table has."""


class OnServer(ABC):
    """A database behind a network: its calls end in time, and their errors belong to one of the families."""

    options: DatabaseOptions
    place: str
    errors: ClassVar[tuple[type[BaseException], ...]]
    """Everything that a call can raise when the server, the network or the driver is at fault."""

    @abstractmethod
    async def open(self) -> Any:
        """A new connection. Whoever calls keeps the deadline and maps the errors."""

    @abstractmethod
    async def end(self, connection: Any) -> None:
        """Drop a connection at once, under a call too. Never raises."""

    async def on_one(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Await what works on a connection of its own, which is dropped then. Raises what ``in_time`` raises."""

        async def call() -> T:
            connection = await self.open()
            try:
                return await work(connection)
            finally:
                await self.end(connection)

        return await self.in_time(call())

    async def kept(self, make: Callable[..., Awaitable[T]], count: int = 1) -> T:
        """What ``make`` makes of ``count`` new connections, and keeps. Raises what ``in_time`` raises, and whatever is
        raised, none of them is left.
        """

        async def call() -> T:
            opening = [asyncio.ensure_future(self.open()) for _ in range(count)]
            try:
                return await make(*await asyncio.gather(*opening))
            except BaseException:
                for task in opening:
                    task.cancel()
                if left := [task for task in opening if not task.done()]:
                    await asyncio.wait(left)
                for task in opening:
                    if not (task.cancelled() or task.exception()):
                        await self.end(task.result())
                raise

        return await self.in_time(call())

    async def in_time(self, call: Awaitable[T]) -> T:
        """Await what works on new connections of its own. Raises FixError, Unavailable or DeadlineExceeded."""
        try:
            async with asyncio.timeout(self.options.timeout_s):
                return await call
        except FencepostError:
            raise
        except self.errors as error:
            fault = self.fault_of(error)
            if isinstance(fault, ConnectionLost):
                fault = Unavailable(fault.what, remedy=fault.remedy or UNREACHABLE)
            raise fault from error

    def fault_of(self, error: BaseException) -> FencepostError:
        """The family of an error. One without a text is our own deadline."""
        if isinstance(error, TimeoutError) and not str(error):
            text = f"{self.place} did not answer within {self.options.timeout_s:g} s"
            return DeadlineExceeded(text, remedy=SILENT)
        return self.family(error)

    @abstractmethod
    def family(self, error: BaseException) -> FencepostError:
        """An error of the driver's."""
