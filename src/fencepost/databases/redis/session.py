"""A session: three connections to one server that live and die together.

One reads, one settles and writes, so that a batch can be fetched while the last one is settled; one waits.

Transactions are executed one after the other, and positions are handed out while they are: so no message ever appears
below one that was seen, but for delayed ones whose time has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from fencepost.databases.redis import entry, scripts
from fencepost.databases.redis.place import Outbox
from fencepost.databases.redis.reading import Pages
from fencepost.databases.redis.waker import Waker
from fencepost.errors import ConnectionLost, DeadlineExceeded
from fencepost.message import Position, Stored
from fencepost.ports import Lane
from fencepost.receipt import PositionRange, merged
from fencepost.resp.link import Link, Word

T = TypeVar("T")

ERROR_CHARACTERS_MAX = 2_000
"""Longer error texts and reasons are cut."""

_SETTLE_MAX = 20_000  # of one script: about 50 ms
_TRIES_MAX = 500
_RANGES_MAX = 250
_PAGE = 500


class RedisSession:
    """``fencepost.ports.Session`` says what each call promises."""

    def __init__(self, outbox: Outbox, reader: Link, writer: Link, waiting: Link) -> None:
        self._outbox, self._keys = outbox, outbox.keys
        self._reader, self._writer = reader, writer
        self._pages = Pages(reader, outbox.keys)
        self._waker = Waker(waiting, outbox.keys)
        self._lost: str | None = None

    # -- reading ------------------------------------------------------------------------------------------------------

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        return await self._call(self._pages.pending(lane, limit, None if after is None else int(after)))

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        return await self._call(self._pages.below(lane, int(position), limit))

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        return await self._call(self._held(merged(ranges)))

    async def _held(self, ranges: Sequence[PositionRange]) -> list[tuple[Position, str]]:
        found: set[tuple[Position, str]] = set()
        for stream in (self._keys.outbox, self._keys.delayed):
            if await self._writer.one("XLEN", stream):
                for at in range(0, len(ranges), _RANGES_MAX):
                    found.update(await self._inside(stream, ranges[at : at + _RANGES_MAX]))
        return sorted(found)

    async def _inside(self, stream: str, ranges: Sequence[PositionRange]) -> list[tuple[Position, str]]:
        """Pages of all ranges at once, then the rest of those that had more than a page."""
        size = max(1, _PAGE // len(ranges))
        found: list[tuple[Position, str]] = []
        rest = [(str(first), last) for first, last in ranges]
        while rest:
            commands = [("XRANGE", stream, first, last, "COUNT", size) for first, last in rest]
            pages = await self._writer.ask(*commands)
            found += [(m.position, m.id) for page in pages for m in entry.all_stored(page)]
            full = [(page[-1][0], last) for (_, last), page in zip(rest, pages, strict=True) if len(page) == size]
            rest = [(f"({raw_id.decode()}", last) for raw_id, last in full]
        return found

    # -- writing ------------------------------------------------------------------------------------------------------

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        return await self._call(self._settle([entry.entry_id(position, id_) for position, id_ in rows]))

    async def _settle(self, names: Sequence[str]) -> int:
        k, gone = self._keys, 0
        for at in range(0, len(names), _SETTLE_MAX):
            keys = (k.outbox, k.delayed, k.due, k.released, k.tries)
            gone += int(await self._writer.run(scripts.SETTLE, keys, names[at : at + _SETTLE_MAX]))
        self._pages.forget(names)
        return gone

    async def reserve(self, position: Position) -> bool:
        k = self._keys
        keys = (k.position, k.outbox, k.delayed)
        return bool(await self._call(self._writer.run(scripts.RESERVE, keys, (int(position),))))

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        k, names = self._keys, [entry.entry_id(m.position, m.id) for m in rows]
        for at in range(0, len(names), _TRIES_MAX):
            part: list[Word] = [token, *names[at : at + _TRIES_MAX]]
            await self._call(self._writer.run(scripts.IN_DOUBT, (k.outbox, k.delayed, k.tries), part))

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        k = self._keys
        await self._call(self._writer.run(scripts.FAILED, (k.outbox, k.delayed, k.tries), _with_texts(rows)))

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        k = self._keys
        keys = (k.outbox, k.delayed, k.tries, k.parked, k.due, k.released)
        await self._call(self._writer.run(scripts.PARK, keys, _with_texts(rows)))
        self._pages.forget([entry.entry_id(m.position, m.id) for m, _ in rows])

    async def release_due(self, limit: int) -> float | None:
        keys = (self._keys.due, self._keys.released)
        next_us = await self._call(self._writer.run(scripts.RELEASE_DUE, keys, (limit,)))
        return None if next_us is None else int(next_us) / 1_000_000

    # -- waiting and the end ------------------------------------------------------------------------------------------

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        self._must_live()
        await self._call(self._waker.wait(self._pages.handed_out, timeout_s))
        self._must_live()

    async def close(self) -> None:
        await self._end("the session is closed")

    async def _end(self, why: str) -> None:
        self._lost = self._lost or why
        await asyncio.gather(*(each.end(why) for each in (self._reader, self._writer)), self._waker.close(why))

    def _must_live(self) -> None:
        if self._lost is not None:
            raise ConnectionLost(f"{self._outbox.place}: {self._lost}")

    async def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """What leaves it unknown what the server did ends the session."""
        if self._lost is not None:
            work.close()
            self._must_live()
        try:
            return await work
        except (ConnectionLost, DeadlineExceeded) as error:
            await self._end(error.what.removeprefix(f"{self._outbox.place}: "))
            raise


def _with_texts(rows: Sequence[tuple[Stored, str]]) -> list[bytes]:
    """Entry id and text in turn."""
    pairs = [(entry.entry_id(m.position, m.id), _shortened(text)) for m, text in rows]
    return [word for name, text in pairs for word in (name.encode(), text)]


def _shortened(text: str) -> bytes:
    return text[:ERROR_CHARACTERS_MAX].encode("utf-8", "backslashreplace")
