"""A session: two connections to one file.

One reads, the other writes. Every read is fetched to its end at once: where the journal is not a write-ahead log, an
open read would hold up every writer.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import aiosqlite

from fencepost.databases.sqlite.connection import Outbox, Work, first, leave, many
from fencepost.errors import ConnectionLost, DeadlineExceeded, FencepostError
from fencepost.message import Position, Stored, microseconds
from fencepost.ports import Lane
from fencepost.receipt import PositionRange, merged
from fencepost.sql.source import LOWEST, shortened

T = TypeVar("T")

FIRST_WAIT_S = 0.002
LONGEST_WAIT_S = 0.05
"""How late a change may be noticed: nobody announces it."""

_TICK_S = 0.001  # SQLite's clock counts milliseconds

_DRAWN = "SELECT max(seq) FROM sqlite_sequence WHERE name = ?"
_FORGET = "DELETE FROM sqlite_sequence WHERE name = ?"
_DRAW = "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)"
_CHANGES = "PRAGMA data_version"


class SqliteSession:
    """``fencepost.ports.Session`` says what each call promises. ``identity`` is that of the file that was opened."""

    def __init__(
        self,
        outbox: Outbox,
        identity: tuple[int, int] | None,
        reader: aiosqlite.Connection,
        writer: aiosqlite.Connection,
    ) -> None:
        self._outbox, self._statements = outbox, outbox.statements
        self._reader, self._writer = reader, writer
        self._reading, self._writing = asyncio.Lock(), asyncio.Lock()
        self._identity = identity
        self._changes: object = None  # SQLite's count of other connections' commits, when we last looked
        self._lost: str | None = None

    # -- reading ------------------------------------------------------------------------------------------------------

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        text, slots = _in_lane(lane, self._statements.pending, self._statements.pending_in_slots)
        rows = await self._read(text, LOWEST if after is None else after, *slots, limit)
        try:
            return _stored(rows)
        except ValueError as error:
            raise self._outbox.fault_of(error) from error

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        text, slots = _in_lane(lane, self._statements.below, self._statements.below_in_slots)
        return [seq for (seq,) in await self._read(text, position, *slots, limit)]

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        return [(p, i) for p, i in await self._read(self._statements.held, json.dumps(merged(ranges)))]

    # -- writing ------------------------------------------------------------------------------------------------------

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        return await self._write(lambda c: many(c, self._statements.settle, rows)) if rows else 0

    async def reserve(self, position: Position) -> bool:
        name = self._outbox.tables.outbox.name

        async def move(connection: aiosqlite.Connection) -> bool:
            (drawn,) = await first(connection, _DRAWN, name)  # no row before the first insert
            if (drawn or 0) >= int(position):
                return False
            await connection.execute(_FORGET, (name,))
            await connection.execute(_DRAW, (name, position))
            return True

        return await self._write(move)

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        values = [(token, m.position, m.id) for m in rows]
        await self._write(lambda c: many(c, self._statements.in_doubt, values))

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        values = [(shortened(error), m.position, m.id) for m, error in rows]
        await self._write(lambda c: many(c, self._statements.failed, values))

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        values = [(shortened(reason), m.position, m.id) for m, reason in rows]

        async def move(connection: aiosqlite.Connection) -> None:
            await many(connection, self._statements.copy_to_parked, values)
            await many(connection, self._statements.remove, [row[1:] for row in values])

        await self._write(move)

    # -- delayed messages ---------------------------------------------------------------------------------------------

    async def release_due(self, limit: int) -> float | None:
        next_s = await self._next_due_s()
        if next_s is not None and next_s <= _TICK_S:
            await self._write(lambda c: many(c, self._statements.release_due, [(limit,)]))
            next_s = await self._next_due_s()
        return None if next_s is None else max(0.0, next_s)

    async def _next_due_s(self) -> float | None:
        rows = list(await self._read(self._statements.next_due))
        return rows[0][0] + _TICK_S if rows else None

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        """Look at the count of changes, which is no more than a look into shared memory, ever more seldom."""
        clock = self._outbox.options.clock
        end = clock.monotonic() + timeout_s
        pause_s = FIRST_WAIT_S
        while not await self._changed():
            left_s = end - clock.monotonic()
            if left_s <= 0:
                return
            await clock.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, LONGEST_WAIT_S)

    async def _changed(self) -> bool:
        before = self._changes
        self._changes = list(await self._read(_CHANGES))
        return self._changes != before

    # -- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        await self._end("the session is closed")
        await asyncio.gather(leave(self._reader), leave(self._writer))

    async def _end(self, why: str) -> None:
        self._lost = self._lost or why
        for connection in (self._reader, self._writer):
            with suppress(ValueError, sqlite3.Error):  # closed already
                await connection.interrupt()

    async def _must_live(self) -> None:
        if self._lost is None and self._outbox.identity() != self._identity:
            await self._end("the file was replaced")
        if self._lost is not None:
            raise ConnectionLost(f"{self._outbox.place}: {self._lost}")

    async def _read(self, text: str, *arguments: object) -> Iterable[Any]:
        async def fetch() -> Iterable[Any]:
            async with self._reading:
                return await self._reader.execute_fetchall(text, arguments)

        return await self._call(fetch)

    async def _write(self, work: Work[T]) -> T:
        """One transaction. It comes to its end also where the caller is cancelled: its thread cannot be."""
        return await self._call(lambda: asyncio.shield(asyncio.ensure_future(self._transaction(work))))

    async def _transaction(self, work: Work[T]) -> T:
        async with self._writing:
            await self._writer.execute("BEGIN IMMEDIATE")
            try:
                result = await work(self._writer)
                await self._writer.commit()
            except BaseException:
                await self._writer.rollback()
                raise
            return result

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await a call, in time. What leaves it unknown what happened ends the session."""
        await self._must_live()
        try:
            return await self._outbox.in_time(call)
        except FencepostError as fault:
            if self._lost is None and isinstance(fault, (ConnectionLost, DeadlineExceeded)):
                await self._end(fault.what.removeprefix(f"{self._outbox.place}: "))
            elif self._lost is not None:
                raise ConnectionLost(f"{self._outbox.place}: {self._lost}") from fault
            raise


def _stored(rows: Iterable[Any]) -> list[Stored]:
    new, moment, parsed = tuple.__new__, datetime.fromisoformat, json.loads  # Stored(...) takes half as long again
    return [
        new(Stored, (p, i, t, k, v, y, b, c, h if h is None else parsed(h), microseconds(moment(o)), a, d == 1))
        for p, i, t, k, v, y, b, c, h, o, a, d in rows
    ]


def _in_lane(lane: Lane, whole: str, in_slots: str) -> tuple[str, list[int]]:
    return (whole, []) if lane.whole else (in_slots, [lane.first_slot, lane.last_slot])
