"""An application with an outbox in MariaDB or MySQL, on asyncmy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncmy
import sqlalchemy as sa

from fencepost.clock import SYSTEM_CLOCK
from fencepost.message import Message
from fencepost.ports import DatabaseOptions
from fencepost.sql.mariadb_address import connect_arguments
from fencepost.testing.harness import Transaction, new_message
from fencepost.testing.writers.sql import OutboxTransaction, SqlWriter

_OTHERS = (
    "SELECT CAST(id AS CHAR) FROM information_schema.processlist"
    " WHERE db = DATABASE() AND id <> CONNECTION_ID() AND command <> 'Killed'"
)
_GONE_S = 5.0


class _Transaction(OutboxTransaction):
    """Many at once, also with keys: drawn versions are counted first, and rows written in the order given."""

    async def add(self, *messages: Message) -> Sequence[Message]:
        """See Transaction."""
        if any(message.version is not None for message in messages):
            return await super().add(*messages)
        return await self._outbox.add_all(self._connection, [new_message(message) for message in messages])


class MariadbWriter(SqlWriter):
    """``fencepost.testing.harness.Writer`` says what each call promises."""

    concurrent = True

    def __init__(self, options: DatabaseOptions) -> None:
        super().__init__(options, sa.make_url(options.url).set(drivername="mysql+asyncmy"))
        self._arguments = connect_arguments(options.url) | {"autocommit": False}

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._connected() as connection:
            try:
                yield _Transaction(self.outbox, connection)
            except BaseException:
                await connection.rollback()
                raise
            await connection.commit()

    async def connections(self) -> Collection[str] | None:
        async with self._connected() as connection:
            return [number for (number,) in await _rows(connection, _OTHERS)]

    async def cut(self, connections: Collection[str]) -> None:
        async with self._connected() as connection:
            for number in connections:
                with suppress(asyncmy.errors.OperationalError):  # gone already
                    await _rows(connection, f"KILL CONNECTION {int(number)}")
            end = SYSTEM_CLOCK.monotonic() + _GONE_S
            while SYSTEM_CLOCK.monotonic() < end:
                await connection.commit()
                if not {number for (number,) in await _rows(connection, _OTHERS)} & set(connections):
                    return
                await SYSTEM_CLOCK.sleep(0.01)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        connection = await asyncmy.connect(**self._arguments)
        try:
            yield connection
        finally:
            connection.close()


async def _rows(connection: Any, text: str) -> Any:
    async with connection.cursor() as cursor:
        await cursor.execute(text)
        return await cursor.fetchall()


def writer(options: DatabaseOptions) -> MariadbWriter:
    """The writer of one outbox."""
    return MariadbWriter(options)
