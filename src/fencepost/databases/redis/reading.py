"""Reading an outbox: the stream, and among its messages the delayed ones whose time has come, in order of positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fencepost.databases.redis import entry, scripts
from fencepost.databases.redis.entry import Entry
from fencepost.databases.redis.keys import Keys
from fencepost.databases.redis.sweep import Sweep
from fencepost.errors import FixError
from fencepost.message import Position, Stored
from fencepost.ports import Lane
from fencepost.resp.link import Link

_ABOVE_ALL = 2**64 - 1


class _Look(NamedTuple):
    """What was there at one moment. ``released`` are padded ids, ``handed_out`` is the last position."""

    page: Sequence[Entry]
    released: Sequence[bytes]
    handed_out: int
    tried: bool


class Pages:
    """The reading side of one session. ``handed_out`` is the last position that was handed out at the last look at the
    bottom.
    """

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link, self._keys = link, keys
        self.handed_out = 0
        self._sweep = Sweep()
        self._bottoms: dict[Lane, int] = {}  # nothing of the lane is below it in the stream, nor will be

    async def pending(self, lane: Lane, limit: int, after: int | None) -> list[Stored]:
        """See Session."""
        self._sweep.begin()
        look = await self._look(lane, limit, after)
        in_stream = await self._of_lane(lane, look.page, limit)
        self._sweep.note(lane, in_stream, after)
        if after is None:
            self.handed_out = look.handed_out
            if not lane.whole:
                self._bottoms[lane] = _position(in_stream[0]) if in_stream else look.handed_out + 1
        return await self._messages(lane, look, in_stream, limit)

    async def below(self, lane: Lane, position: int, limit: int) -> list[Position]:
        """See Session. What others have removed since it was read may still be among them."""
        found = self._sweep.upto(lane, position)
        if found is None:
            found = await self._look_below(lane, position, limit)
        return sorted([*found, *await self._released_upto(lane, position, limit)], key=int)[:limit]

    def forget(self, names: Iterable[str]) -> None:
        """These entries are settled or parked."""
        self._sweep.forget(names)

    async def _look_below(self, lane: Lane, position: int, limit: int) -> list[Position]:
        """Where every message is of the lane, payloads stay on the server."""
        k = self._keys
        if lane.whole:
            ids = await self._link.run(scripts.BELOW, (k.outbox,), (f"{position}-{_ABOVE_ALL}", limit))
            return [entry.position_of(each) for each in ids]
        look = await self._look(lane, limit, None)
        entries = await self._of_lane(lane, look.page, limit)
        return [p for each in entries if (p := _position(each)) <= position]

    async def _released_upto(self, lane: Lane, position: int, limit: int) -> list[Position]:
        upto = f"({entry.padded(position)}."
        names = await self._link.one("ZRANGE", self._keys.released, "-", upto, "BYLEX", "LIMIT", 0, limit)
        if lane.whole or not names:
            return [entry.position_of(name) for name in names]
        return [p for each in await self._released(lane, names, limit) if (p := _position(each)) <= position]

    # -- what is there ------------------------------------------------------------------------------------------------

    async def _look(self, lane: Lane, limit: int, after: int | None) -> _Look:
        k = self._keys
        first = self._bottoms.get(lane, 0) if after is None else after + 1
        page, released, handed_out, tried = await self._link.transaction(
            ("XRANGE", k.outbox, f"{first}-0", "+", "COUNT", limit),
            ("ZRANGE", k.released, _above(after), "+", "BYLEX", "LIMIT", 0, limit),
            ("GET", k.position),
            ("EXISTS", k.tries),
        )
        return _Look(page, released, int(handed_out or 0), bool(tried))

    async def _of_lane(self, lane: Lane, page: Sequence[Entry], limit: int) -> list[Entry]:
        """Up to ``limit`` entries of the lane, from this page of the stream on."""
        if lane.whole:
            return list(page)
        found = [each for each in page if self._is_in(lane, each)]
        while len(page) >= limit > len(found):
            page = await self._link.one("XRANGE", self._keys.outbox, b"(" + page[-1][0], "+", "COUNT", limit)
            found += [each for each in page if self._is_in(lane, each)]
        return found[:limit]

    async def _released(self, lane: Lane, names: Sequence[bytes], limit: int) -> list[Entry]:
        """Up to ``limit`` entries of the lane, from this page of released ones on."""
        found: list[Entry] = []
        while names:
            k, ids = self._keys, [name.lstrip(b"0") for name in names]
            answers = await self._link.ask(*[("XRANGE", k.delayed, each, each) for each in ids])
            found += [each for answer in answers for each in answer if lane.whole or self._is_in(lane, each)]
            if len(names) < limit or len(found) >= limit:
                break
            names = await self._link.one("ZRANGE", k.released, b"(" + names[-1], "+", "BYLEX", "LIMIT", 0, limit)
        return found[:limit]

    # -- as messages --------------------------------------------------------------------------------------------------

    async def _messages(self, lane: Lane, look: _Look, in_stream: list[Entry], limit: int) -> list[Stored]:
        entries = in_stream
        if look.released:
            entries = sorted([*in_stream, *await self._released(lane, look.released, limit)], key=_position)[:limit]
        rows = self._all_stored(entries)
        return await self._with_tries(entries, rows) if look.tried and rows else rows

    async def _with_tries(self, entries: Sequence[Entry], rows: Sequence[Stored]) -> list[Stored]:
        fields = [raw_id + what for raw_id, _ in entries for what in (b" attempts", b" token")]
        found = await self._link.one("HMGET", self._keys.tries, *fields)
        pairs = zip(found[::2], found[1::2], strict=True)
        return [_tried(m, attempts, token) for m, (attempts, token) in zip(rows, pairs, strict=True)]

    def _all_stored(self, entries: Sequence[Entry]) -> list[Stored]:
        try:
            return entry.all_stored(entries)
        except ValueError as error:
            raise self._foreign(error) from error

    def _is_in(self, lane: Lane, found: Entry) -> bool:
        try:
            return lane.first_slot <= entry.slot(found) <= lane.last_slot
        except ValueError as error:
            raise self._foreign(error) from error

    def _foreign(self, error: Exception) -> FixError:
        return FixError(
            f"{self._link.place}: what is no message stands in the stream {self._keys.outbox}: {error}",
            remedy="add messages through RedisOutbox only; XDEL what is not one",
        )


def _position(found: Entry) -> int:
    return entry.position_of(found[0])


def _above(position: int | None) -> str:
    """The lowest padded id above a position: a dot comes after the hyphen."""
    return "-" if position is None else f"({entry.padded(position)}."


def _tried(m: Stored, attempts: bytes | None, token: bytes | None) -> Stored:
    if attempts is None and token is None:
        return m
    return m._replace(attempts=int(attempts or 0), in_doubt=token is not None)
