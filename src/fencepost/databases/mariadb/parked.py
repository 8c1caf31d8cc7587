"""The connection of whoever looks after parked messages: neither reads nor settles wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fencepost.databases.mariadb.connection import Connection, Outbox
from fencepost.flows import run_async
from fencepost.sql.transaction import Call, Rows, Work

T = TypeVar("T")


class ParkedLine:
    """``fencepost.sql.parked_store.Line`` says what each call promises."""

    def __init__(self, outbox: Outbox, connection: Connection) -> None:
        self._outbox, self._connection = outbox, connection

    async def transaction(self, make: Callable[[], Work[T]]) -> T:
        return await self._outbox.in_time(self._run(make))

    async def close(self) -> None:
        self._connection.end()

    async def _run(self, make: Callable[[], Work[T]]) -> T:
        """What raises is rolled back here, or by the server, once the connection has gone."""
        await self._connection.say("BEGIN")
        try:
            result = await run_async(make(), self._execute)
        except Exception:
            await self._connection.say("ROLLBACK")
            raise
        await self._connection.say("COMMIT")
        return result

    async def _execute(self, call: Call) -> Rows:
        return await self._connection.drawn(call.statement.text, *call.statement.row(call.values))
