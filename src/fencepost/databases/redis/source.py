"""The source: opens sessions on a server that will do, counts what waits, and says what would serve better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fencepost.databases.redis import entry
from fencepost.databases.redis.place import Outbox
from fencepost.databases.redis.session import RedisSession
from fencepost.errors import AccessDenied, ConnectionLost, FixError, Unavailable
from fencepost.ports import Backlog, DatabaseOptions
from fencepost.resp.link import Link
from fencepost.resp.server import Server, server_of


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

    async def advice(self) -> Sequence[str]:
        """How this server would serve better; see app.checking."""
        link = await self._link()
        try:
            return list(_advice(await server_of(link), await self._settings(link)))
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

    async def _settings(self, link: Link) -> dict[str, str]:
        """What INFO does not tell. Hosted servers often do not let anybody ask."""
        try:
            answer: list[bytes] = await link.one("CONFIG", "GET", "save")
        except (AccessDenied, FixError, Unavailable):
            return {}
        words = [word.decode() for word in answer]
        return dict(zip(words[::2], words[1::2], strict=True))


def _age_s(entries: Sequence[Any], now: Sequence[bytes]) -> float | None:
    """The age of the oldest of these messages by the server's clock."""
    if not entries:
        return None
    seconds, us = map(int, now)
    return max(0.0, (seconds * 1_000_000 + us - min(entry.stored(each).occurred_us for each in entries)) / 1_000_000)


def _advice(server: Server, settings: dict[str, str]) -> Iterable[str]:
    told = server.told
    if told.get("aof_enabled") == "0":
        if settings.get("save") == "":
            yield (
                "nothing is written to disk: a restart loses every message and the data it belongs to"
                " (set appendonly yes)"
            )
        else:
            yield "what happened since the last snapshot is lost in a restart: set appendonly yes"
    yield from _of_memory(server)
    replicas = int(told.get("connected_slaves", "0"))
    if replicas and "min_slaves_good_slaves" not in told:
        yield (
            f"{replicas} replicas follow asynchronously: a fail-over may lose the last writes, yours and the outbox's"
            " (set min-replicas-to-write 1 and min-replicas-max-lag to bound it)"
        )


def _of_memory(server: Server) -> Iterable[str]:
    policy = server.told.get("maxmemory_policy", "noeviction")
    if server.evicts:
        yield f"maxmemory-policy {policy} would remove messages once maxmemory is set: use noeviction"
    elif policy != "noeviction":
        yield f"maxmemory-policy {policy} removes keys that have an expiry (yours, not the outbox's): use noeviction"
