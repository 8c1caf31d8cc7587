"""The connection of whoever looks after parked messages: neither reads nor settles wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from fencepost.databases.other_sql.connection import Outbox, leave
from fencepost.flows import run_async
from fencepost.sql.transaction import Call, Rows, Work

T = TypeVar("T")


class ParkedLine:
    """``fencepost.sql.parked_store.Line`` says what each call promises."""

    def __init__(self, outbox: Outbox, connection: AsyncConnection) -> None:
        self._outbox, self._connection = outbox, connection

    async def transaction(self, make: Callable[[], Work[T]]) -> T:
        return await self._outbox.in_time(self._run(make))

    async def close(self) -> None:
        await leave(self._connection)

    async def _run(self, make: Callable[[], Work[T]]) -> T:
        async with self._connection.begin():
            return await run_async(make(), self._execute)

    async def _execute(self, call: Call) -> Rows:
        said = call.statement
        values = tuple(said.row(call.values)) if said.positional else said.mapping(call.values)
        result = await self._connection.exec_driver_sql(said.text, values)
        return result.fetchall() if result.returns_rows else ()
