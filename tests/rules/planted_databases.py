"""Deliberately wrong databases: each is the one in memory, weakened in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fencepost.databases import memory
from fencepost.databases.memory import MemorySession, MemorySource
from fencepost.message import Position, Stored
from fencepost.ports import DatabaseOptions, Lane
from fencepost.receipt import PositionRange

schema = memory.schema

CHECKPOINTS: dict[str, int] = {}
"""How far a reader has come, by the URL of the database."""


class PlantedSource(MemorySource):
    """A source whose sessions are of another class."""

    def __init__(self, kind: type[MemorySession], options: DatabaseOptions) -> None:
        super().__init__(memory.database(options.url, prefix=options.prefix, clock=options.clock), options)
        self._kind = kind

    async def connect(self) -> MemorySession:
        session = self._kind(self._database, self._options)
        self._database._sessions[session] = None
        return session


class Unchanged(MemorySession):
    """Nothing is wrong with this one."""


class SettlesByPositionOnly(MemorySession):
    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        state = self._database._state
        there = [(p, state.rows[p].message.id) for p, _ in rows if isinstance(p, int) and p in state.rows]
        return await super().settle(there)


class SettlesByIdOnly(MemorySession):
    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        places = {row.message.id: row.message.position for row in self._database.rows}
        return await super().settle([(places.get(i, p), i) for p, i in rows])


class CountsWhatItWasAskedToSettle(MemorySession):
    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        await super().settle(rows)
        return len(rows)


class ReadsAboveTheLastOneItSaw(MemorySession):
    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        place = self._database.url
        rows = await super().pending(lane, limit, CHECKPOINTS.get(place, 0) if after is None else after)
        if rows:
            CHECKPOINTS[place] = max(CHECKPOINTS.get(place, 0), int(rows[0].position) - 1)
        return rows


class BelowSeesOneOnly(MemorySession):
    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        return await super().below(lane, position, 1)


class SeesOpenTransactions(MemorySession):
    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        rows = [*await super().pending(lane, limit, after)]
        rows += [row.message for t in self._database._transactions for row in t._rows]
        return rows[:limit]


class IgnoresTheLimit(MemorySession):
    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        return await super().pending(lane, 2**31, after)


class IgnoresAfter(MemorySession):
    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        return await super().pending(lane, limit)


class ReadsTheNewestFirst(MemorySession):
    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        return (await super().pending(lane, 2**31, after))[::-1][:limit]


class ReadsByTime(MemorySession):
    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        return sorted(await super().pending(lane, limit, after), key=lambda m: m.occurred_us)


class PagesGoAstray(MemorySession):
    """From the second hundred on it begins anywhere."""

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        rows = await super().pending(lane, limit, after)
        return rows if limit != 100 or len(rows) < limit else rows[1:]


class KeepsWhatIsDeleted(MemorySession):
    """What was read once is read again and again."""

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        rows = await super().pending(lane, limit, after)
        kept: list[Stored] = self.__dict__.setdefault("kept", [])
        kept += [m for m in rows if m not in kept]
        return rows or (kept[:limit] if after is None else rows)


class LanesOverlap(MemorySession):
    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        return await super().pending(Lane(lane.relay, lane.index, lane.first_slot, lane.last_slot + 1), limit, after)


class PassesPayloadsThroughText(MemorySession):
    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        rows = await super().pending(lane, limit, after)
        return [m._replace(payload=(m.payload or b"").decode(errors="replace").encode()) for m in rows]


class ForgetsTombstones(MemorySession):
    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        return [m._replace(payload=m.payload or b"") for m in await super().pending(lane, limit, after)]


class CutsTimesToSeconds(MemorySession):
    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        rows = await super().pending(lane, limit, after)
        return [m._replace(occurred_us=m.occurred_us // 1_000_000 * 1_000_000) for m in rows]


class HeldForgetsWhatIsDelayed(MemorySession):
    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        rows = self._database._state.rows
        return [(p, i) for p, i in await super().held(ranges) if rows[int(p)].available_at is None]


class ReservesNothing(MemorySession):
    async def reserve(self, position: Position) -> bool:
        return self._database._state.next_position <= int(position)


class ReservesBackwards(MemorySession):
    async def reserve(self, position: Position) -> bool:
        free = await super().reserve(position)
        self._database._state.next_position = int(position) + 1
        return free


class MarksNothingInDoubt(MemorySession):
    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        pass


class CountsFailuresOfWholeBatches(MemorySession):
    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        named = {m.id for m, _ in rows}
        others = [(row.message, "of another") for row in self._database.rows if row.message.id not in named]
        await super().failed([*rows, *others])


class KeepsWholeErrorTexts(MemorySession):
    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        await super().failed(rows)
        state = self._database._state
        for m, error in rows:
            row = state.matching(m.position, m.id)
            if row is not None:
                state.change(memory.Row(row.message, row.slot, last_error=error))


class ParkLosesTheMessage(MemorySession):
    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        await self.settle([(m.position, m.id) for m, _ in rows])


class ParkKeepsTheMessage(MemorySession):
    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        before = self._database._state.copy()
        await super().park(rows)
        self._database._state.rows, self._database._state.order = before.rows, before.order


class ReleasesWhatIsNotDue(MemorySession):
    async def release_due(self, limit: int) -> float | None:
        state = self._database._state
        for row in self._database.rows[:limit]:
            state.change(memory.Row(row.message, row.slot))
        return None


class SleepsThroughACommit(MemorySession):
    async def wait(self, lane: Lane, timeout_s: float) -> None:
        self._seen = self._database._commits
        await super().wait(lane, timeout_s)


class IsNeverWoken(MemorySession):
    async def wait(self, lane: Lane, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)


class NeverWaits(MemorySession):
    async def wait(self, lane: Lane, timeout_s: float) -> None:
        await asyncio.sleep(0)


class ReconnectsByItself(MemorySession):
    def _must_be_alive(self) -> None:
        self._alive = True


class GoesOnAfterAFallBack(MemorySession):
    """Nobody but its owner ends it."""

    def end(self) -> None:
        """What it was connected to may have gone."""

    async def close(self) -> None:
        super().end()


def source_of(kind: type[MemorySession]) -> object:
    """The factory of a plug-in with these sessions."""
    return lambda options: PlantedSource(kind, options)
