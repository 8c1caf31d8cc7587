"""There are no tables in Redis: keys are made when they are needed, so nothing can be missing."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.databases.redis.place import Outbox
from fencepost.ports import DatabaseOptions


class RedisSchema:
    """``fencepost.ports.Schema`` says what each call promises."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)

    def statements(self) -> Sequence[str]:
        return ()

    async def apply(self) -> Sequence[str]:
        """Look whether the server will do, as a relay would. Raises what ``connect`` raises."""
        for link in await self._outbox.links(1):
            await link.end("the look is over")
        return ()

    async def missing(self) -> Sequence[str]:
        return ()
