"""Waiting for the next message: a blocking read on a connection of its own, which costs the server nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from fencepost.databases.redis.keys import Keys
from fencepost.errors import FencepostError
from fencepost.resp.link import Link

_BEYOND_ALL = 2**64 - 1
_GRAIN_S = 0.001  # the server counts in milliseconds, and takes 0 for ever


class Waker:
    """``link`` is used by nobody else. A wait that is given up goes on in the background, and serves the next one."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._keys = link, keys
        self._blocked: asyncio.Task[Any] | None = None

    async def wait(self, last: int, timeout_s: float) -> None:
        """Return when there is a message, delayed or not, above position ``last``; after ``timeout_s`` at the latest.

        May return early. Raises ConnectionLost or DeadlineExceeded.
        """
        if timeout_s < _GRAIN_S:
            self._link.must_live()
            return
        if self._blocked is None or self._blocked.done():
            self._blocked = asyncio.ensure_future(self._block(last, timeout_s))
        await asyncio.wait([self._blocked], timeout=timeout_s)
        if self._blocked.done():
            self._blocked.result()
        self._link.must_live()

    async def close(self, why: str) -> None:
        """End the connection, and the wait with it. Never raises."""
        await self._link.end(why)
        if self._blocked is not None:
            with suppress(FencepostError):
                await self._blocked

    async def _block(self, last: int, timeout_s: float) -> None:
        k, after = self._keys, f"{last}-{_BEYOND_ALL}"
        words = ("XREAD", "COUNT", 1, "BLOCK", int(timeout_s * 1000), "STREAMS", k.outbox, k.delayed, after, after)
        await self._link.ask(words, beyond_s=timeout_s)
