"""Where an outbox in Oracle, SQL Server or CockroachDB is, and how every connection to it is made and used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from fencepost.errors import ConfigurationError, FencepostError, FixError, Unavailable
from fencepost.ports import DatabaseOptions
from fencepost.sql.faults import fault_of
from fencepost.sql.other import dialect_of
from fencepost.sql.other_engine import engine_in, name_in, place_in, settle_in
from fencepost.sql.place import OnServer
from fencepost.sql.source_other import RelayStatements
from fencepost.sql.tables import tables

Values = Mapping[str, object]

ERRORS = (SQLAlchemyError, OSError, ValueError)
"""Everything that a call can raise when the server, the network or the driver is at fault."""

GOODBYE_S = 0.5


class Outbox(OnServer):
    """One outbox. ``place`` names it in errors, without a password."""

    errors = ERRORS

    def __init__(self, options: DatabaseOptions) -> None:
        self.options = options
        self.name = name_in(options.url)
        self.place = place_in(options.url)
        if options.settle != "delete" or options.table is not None:
            what = "settled rows that stay" if options.settle != "delete" else "an existing table"
            raise ConfigurationError(f"{self.place} cannot have {what}", remedy="leave that setting out")
        self.dialect = dialect_of(self.name)
        self.tables = tables(schema=options.schema, prefix=options.prefix)
        self.statements = RelayStatements(self.tables, self.name)
        self._engine: AsyncEngine | None = None

    async def open(self) -> AsyncConnection:
        """A new connection. Whoever calls keeps the deadline and maps the errors."""
        if self._engine is None:
            self._engine = engine_in(self.options.url)
        connection = await self._engine.connect()
        try:
            await settle_in(connection, self.options.timeout_s)
        except BaseException:
            await leave(connection)
            raise
        return connection

    async def end(self, connection: AsyncConnection) -> None:
        """See OnServer."""
        await leave(connection)

    async def is_there(self, connection: AsyncConnection, table: sa.Table) -> bool:
        """Whether a table has all of its columns: a query for none of its rows tells."""
        try:
            await connection.execute(sa.select(table).where(sa.literal_column("1") == sa.literal_column("0")))
            return True
        except SQLAlchemyError as error:
            if not isinstance(self.fault_of(error), FixError):
                raise
            return False
        finally:
            await connection.rollback()

    def family(self, error: BaseException) -> FencepostError:
        """See OnServer."""
        known = fault_of(error, self.place) if isinstance(error, Exception) else None
        if known is None and isinstance(error, ValueError):
            known = FixError(f"{self.place}: {error}")  # a value that none of our writers has written
        return known or Unavailable(f"{self.place}: {error!r}")


async def rows(connection: AsyncConnection, statement: Any, values: Values | None = None) -> Sequence[Any]:
    """The rows of a query, all of them."""
    return (await connection.execute(statement, values)).all()


async def change(connection: AsyncConnection, statement: Any, values: Values) -> int:
    """How many rows a statement changed."""
    return int((await connection.execute(statement, values)).rowcount)


async def leave(connection: AsyncConnection) -> None:
    """Close at once, without waiting for the server for long."""
    with suppress(TimeoutError, *ERRORS):
        async with asyncio.timeout(GOODBYE_S):
            await connection.invalidate()
            await connection.close()
