"""What looks after parked messages, on a connection for each call: nothing is held in between."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import aiosqlite

from fencepost.databases.sqlite.connection import Outbox
from fencepost.errors import ConnectionLost
from fencepost.flows import run_async
from fencepost.sql.transaction import Call, Rows, Work

T = TypeVar("T")


class ParkedLine:
    """``fencepost.sql.parked_store.Line`` says what each call promises. ``identity`` is that of the file then."""

    def __init__(self, outbox: Outbox, identity: tuple[int, int] | None) -> None:
        self._outbox, self._identity = outbox, identity

    async def transaction(self, make: Callable[[], Work[T]]) -> T:
        if self._outbox.identity() != self._identity:
            raise ConnectionLost(f"{self._outbox.place}: the file was replaced")
        return await self._outbox.on_one(partial(_run, make))

    async def close(self) -> None:
        return


async def _run(make: Callable[[], Work[T]], connection: aiosqlite.Connection) -> T:
    """What raises is rolled back, since its connection is closed."""

    async def execute(call: Call) -> Rows:
        return list(await connection.execute_fetchall(call.statement.text, call.statement.row(call.values)))

    await connection.execute("PRAGMA synchronous = FULL")
    await connection.execute("BEGIN")
    result = await run_async(make(), execute)
    await connection.commit()
    return result
