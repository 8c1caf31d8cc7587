"""The connection of whoever looks after parked messages: neither reads nor settles wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fencepost.databases.postgresql.connection import Outbox
from fencepost.flows import run_async
from fencepost.sql.transaction import Call, Rows, Work

T = TypeVar("T")


class ParkedLine:
    """``fencepost.sql.parked_store.Line`` says what each call promises."""

    def __init__(self, outbox: Outbox, connection: Any) -> None:
        self._outbox, self._connection = outbox, connection

    async def transaction(self, make: Callable[[], Work[T]]) -> T:
        return await self._outbox.in_time(self._run(make))

    async def close(self) -> None:
        self._connection.terminate()

    async def _run(self, make: Callable[[], Work[T]]) -> T:
        async with self._connection.transaction():
            return await run_async(make(), self._execute)

    async def _execute(self, call: Call) -> Rows:
        rows: Rows = await self._connection.fetch(call.statement.text, *call.statement.row(call.values))
        return rows
