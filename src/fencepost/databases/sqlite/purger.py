"""Removes settled rows, on a connection for each few of them: nothing is held while it pauses."""

from __future__ import annotations

import aiosqlite

from fencepost.databases.sqlite.connection import Outbox, first, many
from fencepost.errors import ConnectionLost


class SqlitePurger:
    """``fencepost.ports.Purger`` says what each call promises. ``identity`` is that of the file that was opened."""

    def __init__(self, outbox: Outbox, identity: tuple[int, int] | None) -> None:
        self._outbox, self._identity = outbox, identity

    async def purge(self, older_than_s: float, limit: int) -> int:
        async def remove(connection: aiosqlite.Connection) -> int:
            return await many(connection, self._outbox.statements.purge, [(older_than_s * 1e6, limit)])

        self._must_live()
        return await self._outbox.on_one(remove)

    async def count(self, older_than_s: float) -> int:
        self._must_live()
        text = self._outbox.statements.purgeable
        (count,) = await self._outbox.on_one(lambda connection: first(connection, text, older_than_s * 1e6))
        return int(count)

    async def close(self) -> None:
        return

    def _must_live(self) -> None:
        if self._outbox.identity() != self._identity:
            raise ConnectionLost(f"{self._outbox.place}: the file was replaced")
