"""Removes settled rows, on a connection of its own: neither reads nor settles wait for it."""

from __future__ import annotations

import json

from fencepost.databases.mariadb.connection import Connection, Outbox


class MariadbPurger:
    """``fencepost.ports.Purger`` says what each call promises."""

    def __init__(self, outbox: Outbox, connection: Connection) -> None:
        self._outbox, self._connection = outbox, connection

    async def purge(self, older_than_s: float, limit: int) -> int:
        return await self._outbox.in_time(self._purge(int(older_than_s * 1e6), limit))

    async def count(self, older_than_s: float) -> int:
        ago_us = int(older_than_s * 1e6)
        ((count,),) = await self._outbox.in_time(self._connection.rows(self._outbox.statements.purgeable, ago_us))
        return int(count)

    async def close(self) -> None:
        self._connection.end()

    async def _purge(self, ago_us: int, limit: int) -> int:
        """They are found without a lock, and then removed by their positions, where they are still what they were."""
        said = self._outbox.statements
        rows = await self._connection.rows(said.oldest_settled, ago_us, limit)
        if not rows:
            return 0
        return await self._connection.change(said.purge, json.dumps(sorted(position for (position,) in rows)))
