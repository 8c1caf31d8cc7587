"""The source: opens sessions on a server that will do, counts what waits, and says what would serve better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.databases.redis import entry
from fencepost.databases.redis.parked import RedisParked
from fencepost.databases.redis.place import Outbox
from fencepost.databases.redis.session import RedisSession
from fencepost.errors import ConnectionLost, Unavailable
from fencepost.ports import Backlog, DatabaseOptions
from fencepost.resp.keeping import advice
from fencepost.resp.link import Link


class RedisSource:
    """An outbox that a relay reads."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)

    async def connect(self) -> RedisSession:
        try:
            reader, writer, waiting = await self._outbox.links(3)
        except ConnectionLost as error:
            raise Unavailable(error.what, remedy=error.remedy) from error
        return RedisSession(self._outbox, reader, writer, waiting)

    async def backlog(self) -> Backlog:
        link = await self._link()
        try:
            return await self._backlog(link)
        finally:
            await link.end("the look is over")

    async def parked(self) -> RedisParked:
        return RedisParked(self._outbox.keys, await self._link())

    async def advice(self) -> Sequence[str]:
        """How this server would serve better; see app.checking."""
        link = await self._link()
        try:
            return await advice(link, ours="the outbox's", lost="every message and the data it belongs to")
        finally:
            await link.end("the look is over")

    async def _link(self) -> Link:
        try:
            (link,) = await self._outbox.links(1)
        except ConnectionLost as error:
            raise Unavailable(error.what, remedy=error.remedy) from error
        return link

    async def _backlog(self, link: Link) -> Backlog:
        k = self._outbox.keys
        waiting, released, delayed, parked, first, now = await link.transaction(
            ("XLEN", k.outbox),
            ("ZCARD", k.released),
            ("ZCARD", k.due),
            ("XLEN", k.parked),
            ("XRANGE", k.outbox, "-", "+", "COUNT", 1),
            ("TIME",),
        )
        earliest = await link.one("ZRANGE", k.released, "-", "+", "BYLEX", "LIMIT", 0, 1)
        if earliest:
            name = earliest[0].lstrip(b"0")
            first = [*first, *await link.one("XRANGE", k.delayed, name, name)]
        return Backlog(pending=waiting + released, delayed=delayed, parked=parked, oldest_age_s=_age_s(first, now))


def _age_s(entries: Sequence[Any], now: Sequence[bytes]) -> float | None:
    """The age of the oldest of these messages by the server's clock."""
    if not entries:
        return None
    seconds, us = map(int, now)
    return max(0.0, (seconds * 1_000_000 + us - min(entry.stored(each).occurred_us for each in entries)) / 1_000_000)
