"""Removes settled rows, on a connection of its own: neither reads nor settles wait for it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from fencepost.databases.postgresql.connection import Outbox

T = TypeVar("T")


class PostgresqlPurger:
    """``fencepost.ports.Purger`` says what each call promises."""

    def __init__(self, outbox: Outbox, connection: Any) -> None:
        self._outbox, self._connection = outbox, connection

    async def purge(self, older_than_s: float, limit: int) -> int:
        text, ago_us = self._outbox.statements.purge, int(older_than_s * 1e6)
        status = await self._call(self._connection.execute(text, ago_us, limit))
        return int(status.rpartition(" ")[2])

    async def count(self, older_than_s: float) -> int:
        text, ago_us = self._outbox.statements.purgeable, int(older_than_s * 1e6)
        return int(await self._call(self._connection.fetchval(text, ago_us)))

    async def close(self) -> None:
        self._connection.terminate()

    async def _call(self, call: Awaitable[T]) -> T:
        return await self._outbox.in_time(call)
