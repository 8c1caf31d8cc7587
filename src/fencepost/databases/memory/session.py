"""A relay's connection to a database in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice

from fencepost import gate
from fencepost.databases.memory.rows import ParkedRow, State
from fencepost.databases.memory.shared import MemoryDatabase
from fencepost.errors import ConnectionLost, DeadlineExceeded
from fencepost.message import Position, Stored
from fencepost.ports import DatabaseOptions, Lane
from fencepost.receipt import PositionRange

ERROR_CHARACTERS_MAX = 2_000
"""Longer error texts and reasons are cut."""


class MemorySession:
    """One connection. ``fencepost.ports.Session`` says what each call promises."""

    def __init__(self, database: MemoryDatabase, options: DatabaseOptions) -> None:
        self._database = database
        self._clock = options.clock
        self._timeout_s = options.timeout_s
        self._alive = True
        self._bells = gate.Bells()
        self._seen = -1  # how many commits there were at the last pending()

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        async with self._call("pending") as state:
            self._seen = self._database._commits
            start = 0 if after is None else bisect_right(state.order, int(after))
            return list(islice(_publishable(state, lane, start), limit))

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        async with self._call("below") as state:
            found = (m.position for m in _publishable(state, lane, 0) if int(m.position) <= int(position))
            return list(islice(found, limit))

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        async with self._call("settle") as state:
            gone = [(int(position), i) for position, i in dict.fromkeys(rows) if state.matching(position, i)]
            state.remove({position for position, _ in gone})
            self._database.settled.extend(gone)
        return len(gone)

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        async with self._call("held") as state:
            positions = sorted({p for first, last in ranges for p in _between(state.order, int(first), int(last))})
            return [(p, state.rows[p].message.id) for p in positions]

    async def reserve(self, position: Position) -> bool:
        async with self._call("reserve") as state:
            free = state.next_position <= int(position)
            state.next_position = max(state.next_position, int(position) + 1)
        return free

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        async with self._call("in_doubt") as state:
            for message in rows:
                row = state.matching(message.position, message.id)
                if row is not None:
                    state.change(replace(row, message=row.message._replace(in_doubt=True), token=token))

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        async with self._call("failed") as state:
            for message, error in rows:
                row = state.matching(message.position, message.id)
                if row is not None:
                    tried = row.message._replace(attempts=row.message.attempts + 1)
                    state.change(replace(row, message=tried, last_error=error[:ERROR_CHARACTERS_MAX]))

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        async with self._call("park") as state:
            for message, reason in rows:
                row = state.matching(message.position, message.id)
                if row is not None:
                    tried = row.message._replace(attempts=row.message.attempts + 1)
                    parked = ParkedRow(tried, self._database.clock.now(), reason[:ERROR_CHARACTERS_MAX])
                    state.parked[message.id] = parked
                    state.remove({int(message.position)})

    async def release_due(self, limit: int) -> float | None:
        async with self._call("release_due") as state:
            now = self._database.clock.now()
            delayed = sorted(((r.available_at, p) for p, r in state.rows.items() if r.available_at is not None))
            due = [p for moment, p in delayed if moment <= now][:limit]
            for position in due:
                state.change(replace(state.rows[position], available_at=None))
            rest = delayed[len(due) :]
        return max((rest[0][0] - now).total_seconds(), 0.0) if rest else None

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        self._must_be_alive()
        if self._seen == self._database._commits:
            await gate.wait(self._clock, timeout_s, self._database._bells, self._bells)
        self._must_be_alive()

    async def close(self) -> None:
        self.end()

    @asynccontextmanager
    async def _call(self, name: str) -> AsyncIterator[State]:
        """A call has its effect at once, between two turns for others; in the second its answer may be lost."""
        self._must_be_alive()
        try:
            await self._database.gate.enter(name, self._clock, self._timeout_s, self._bells)
            self._must_be_alive()
            yield self._database._state
            self._database.gate.leave(name)
            await self._clock.sleep(0)
            self._must_be_alive()
        except (ConnectionLost, DeadlineExceeded):
            self.end()
            raise

    def _must_be_alive(self) -> None:
        if not self._alive:
            raise ConnectionLost(f"the session with {self._database.url} has ended")

    def end(self) -> None:
        """The connection is over: every call fails from now on."""
        self._alive = False
        self._database._sessions.pop(self, None)
        gate.ring(self._bells)


def _publishable(state: State, lane: Lane, start: int) -> Iterable[Stored]:
    for position in islice(state.order, start, None):
        row = state.rows[position]
        if row.available_at is None and lane.first_slot <= row.slot <= lane.last_slot:
            yield row.message


def _between(order: Sequence[int], first: int, last: int) -> Sequence[int]:
    return order[bisect_left(order, first) : bisect_right(order, last)]
