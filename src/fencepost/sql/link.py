"""One connection of one's own, through SQLAlchemy: never the application's pool, never another's transaction.

A link lives from connect to its first trouble; the next call makes a new one. Every use has a deadline, after which the
connection is dropped, because nobody knows what became of the last statement.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import NullPool
from sqlalchemy.sql import Executable

from fencepost.errors import ConnectionLost, DeadlineExceeded
from fencepost.sql.faults import SILENT, fault_of
from fencepost.sql.other import OTHERS
from fencepost.sql.tables import MARIADB

OWN_POOL: Mapping[str, Any] = {"poolclass": NullPool, "pool_logging_name": "fencepost"}
"""For the engine of a link: no pool. A connection may be ended under a call, whose cursor cannot be closed any more;
SQLAlchemy logs that with a traceback, so these connections have a logger of their own, which is silent.
"""
logging.getLogger(f"{NullPool.__module__}.{NullPool.__name__}.fencepost").setLevel(logging.CRITICAL)

_GOODBYE_S = 0.5  # how long a connection that is dropped may hold up its caller


class Wire:
    """An open connection, in autocommit but for a few databases. ``driver`` is the driver's own connection."""

    def __init__(self, connection: AsyncConnection, driver: Any) -> None:
        self.connection = connection
        self.driver = driver
        self.broken = False
        """Found to be closed by the other side."""

    async def first(self, statement: Executable, **values: Any) -> Row[Any] | None:
        """The first row of a statement's result."""
        return (await self.connection.execute(statement, values)).first()

    async def count(self, statement: Executable, **values: Any) -> int:
        """How many rows a statement changed."""
        return (await self.connection.execute(statement, values)).rowcount

    async def say(self, command: str) -> None:
        """A command that is sent as it is, without preparation: BEGIN, COMMIT, ROLLBACK."""
        if self.connection.dialect.name in OTHERS:
            await self._ended(command)
        elif self.connection.dialect.name in MARIADB:
            await self.connection.exec_driver_sql(command)
        else:
            await self.driver.execute(command)

    async def _ended(self, command: str) -> None:
        """Where not every database has these commands, and the first statement begins a transaction."""
        if command == "COMMIT":
            await self.connection.commit()
        elif command == "ROLLBACK":
            await self.connection.rollback()


class Link:
    """``opened`` is called with each new connection, before anybody uses it. ``place`` names it in errors.

    ``abort`` ends the driver's last connection at once, if it still lives: also one that was never handed to us.
    """

    def __init__(
        self, engine: AsyncEngine, place: str, opened: Callable[[Wire], Awaitable[None]], abort: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._place = place
        self._opened = opened
        self._abort = abort
        self._turn = asyncio.Lock()
        self._wire: Wire | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False

    @asynccontextmanager
    async def use(self, timeout_s: float) -> AsyncIterator[Wire]:
        """The connection, for one caller at a time. After any error inside, it is dropped.

        Raises what ``fault_of`` makes of the error; DeadlineExceeded after ``timeout_s``, waiting for the turn
        included.
        """
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                try:
                    yield await self._connected()
                except BaseException:
                    await self._drop()
                    raise
        except TimeoutError as error:
            raise DeadlineExceeded(f"{self._place} did not answer within {timeout_s:g} s", remedy=SILENT) from error
        except Exception as error:
            fault = ConnectionLost(f"{self._place} was closed") if self._closed else fault_of(error, self._place)
            if fault is None or fault is error:
                raise
            raise fault from error

    @property
    def up(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._wire is not None and not self._wire.broken

    async def close(self) -> None:
        """End the connection, also under a call that is still running. Never raises; may be opened again."""
        self._closed = True
        await self._drop()
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=_GOODBYE_S)

    def reopen(self) -> None:
        """Allow connecting again after ``close``."""
        self._closed = False

    async def _connected(self) -> Wire:
        if self._closed:
            raise ConnectionLost(f"{self._place} was closed")
        if self._wire is not None and self._wire.broken:
            await self._drop()
        if self._wire is None:
            connection = await self._engine.connect()
            raw = await connection.get_raw_connection()
            self._wire = Wire(connection, raw.driver_connection)
            await self._opened(self._wire)
        if self._closed:  # meanwhile
            raise ConnectionLost(f"{self._place} was closed")
        return self._wire

    async def _drop(self) -> None:
        wire, self._wire = self._wire, None
        self._abort()
        if wire is None:
            return
        wire.broken = True
        leaving = asyncio.ensure_future(_leave(wire.connection))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._left)
        await asyncio.wait([leaving], timeout=_GOODBYE_S)

    def _left(self, leaving: asyncio.Task[None]) -> None:
        self._leaving.discard(leaving)
        if not leaving.cancelled():
            leaving.exception()  # it is gone either way


async def _leave(connection: AsyncConnection) -> None:
    await connection.invalidate()
    await connection.close()
