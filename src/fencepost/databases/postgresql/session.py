"""A session: two connections to one server that live and die together.

One reads and listens, the other settles and writes, so that a batch can be fetched while the last one is settled.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from fencepost.databases.postgresql.connection import Outbox
from fencepost.databases.postgresql.faults import ERRORS
from fencepost.errors import FencepostError
from fencepost.message import Position, Stored, microseconds
from fencepost.ports import Lane
from fencepost.receipt import PositionRange, merged
from fencepost.sql.session import ServerSession, Turns
from fencepost.sql.source import LOWEST, arrays, between, shortened
from fencepost.sql.watch import Watch

_LAST_DRAWN = "SELECT pg_sequence_last_value($1::text::regclass)"
_DRAW = "SELECT max(nextval($1::text::regclass)) FROM generate_series(1, $2::bigint)"
_DRAW_MAX = 500_000  # of one statement: about a second

_GOODBYE_S = 0.5

_FROM_1970_TO_2000_US = microseconds(datetime(2000, 1, 1, tzinfo=UTC))
_EARLIEST_US = microseconds(datetime.min.replace(tzinfo=UTC))
_LATEST_US = microseconds(datetime.max.replace(tzinfo=UTC))


class PostgresqlSession(ServerSession):
    """``fencepost.ports.Session`` says what each call promises. ``sequence`` draws the positions."""

    def __init__(self, outbox: Outbox, reader: Any, writer: Any, sequence: str) -> None:
        super().__init__(outbox)
        self._outbox, self._statements, self._sequence = outbox, outbox.statements, sequence
        self._reader, self._writer = Turns(reader), Turns(writer)
        self._watch = Watch(outbox.options.clock)
        self._bell = asyncio.Event()  # rung when a writer notifies, and when the session ends
        self._lane: Lane | None = None

    async def begin(self) -> None:
        """Prepare both connections. Whoever calls keeps the deadline and maps the errors."""
        reader = self._reader.connection
        # asyncpg's own decoding of a time costs as much as all the other columns of a row.
        await _decode(reader, "timestamptz", _microseconds, "tuple")
        await _decode(reader, "json", json.loads, "text")
        await reader.add_listener(self._outbox.channel, self._ring)
        for link in (self._reader, self._writer):
            link.connection.add_termination_listener(self._connection_closed)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        self._lane = lane
        if after is None:
            self._bell.clear()
        text, arguments = self._in_lane(lane, self._statements.pending, self._statements.pending_in_slots)
        lowest = self._statements.lowest or LOWEST
        arguments = [lowest if after is None else after, *arguments, limit]
        records = await self._call(self._reader, lambda c: c.fetch(text, *arguments))
        new = tuple.__new__  # Stored(*record) takes twice as long, and new(Stored, record) a third more
        rows = [new(Stored, record[:]) for record in records]
        self._watch.found(rows, after)
        return rows

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        text, arguments = self._in_lane(lane, self._statements.below, self._statements.below_in_slots)
        arguments = [position, *arguments, limit]
        return [seq for (seq,) in await self._call(self._reader, lambda c: c.fetch(text, *arguments))]

    @staticmethod
    def _in_lane(lane: Lane, whole: str, in_slots: str) -> tuple[str, list[Any]]:
        return (whole, []) if lane.whole else (in_slots, [lane.first_slot, lane.last_slot])

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        firsts, lasts = arrays(merged(ranges))
        records = await self._call(self._writer, lambda c: c.fetch(self._statements.held, firsts, lasts))
        return [(position, message_id) for position, message_id in records]

    # -- writing ------------------------------------------------------------------------------------------------------

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        if not rows:
            return 0
        given: Sequence[object] | None = between(rows) if self._statements.settle_between else None
        text = self._statements.settle_between if given else self._statements.settle
        arguments = given or arrays(rows)
        status = await self._call(self._writer, lambda c: c.execute(text, *arguments))
        if self._watch.should_wake:
            await self._tell(asleep=False)
        return int(status.rpartition(" ")[2])

    async def reserve(self, position: Position) -> bool:
        """Positions are drawn until this one is past: setval could take back what others draw at the same moment."""
        wanted = int(position)
        drawn = await self._call(self._writer, lambda c: c.fetchval(_LAST_DRAWN, self._sequence)) or 0
        behind = drawn < wanted
        while drawn < wanted:
            drawn = await self._draw(min(wanted - drawn, _DRAW_MAX))
        return behind

    async def _draw(self, count: int) -> int:
        drawn: int = await self._call(self._writer, lambda c: c.fetchval(_DRAW, self._sequence, count))
        return drawn

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        given = arrays([(m.position, m.id) for m in rows])
        await self._call(self._writer, lambda c: c.execute(self._statements.in_doubt, token, *given))

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        values = _with_texts(rows)
        await self._call(self._writer, lambda c: c.executemany(self._statements.failed, values))

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        values = _with_texts(rows)

        async def move(connection: Any) -> None:
            async with connection.transaction():
                await connection.executemany(self._statements.copy_to_parked, values)
                await connection.executemany(self._statements.remove, [row[1:] for row in values])

        await self._call(self._writer, move)

    async def release_due(self, limit: int) -> float | None:
        next_s = await self._call(self._writer, lambda c: c.fetchval(self._statements.release_due, limit))
        return None if next_s is None else max(0.0, next_s)

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        """Short waits at first. Then the writers are asked to notify, and the waits grow to ``timeout_s``."""
        self._must_live()
        self._lane = lane
        if self._watch.should_sleep:
            await self._tell(asleep=True)
            return  # for another look: what was committed until now was committed silently
        if self._watch.should_wake:
            await self._tell(asleep=False)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._watch.next_wait_s(timeout_s)):
                await self._bell.wait()
        self._must_live()

    async def _tell(self, *, asleep: bool) -> None:
        lane = self._lane
        if lane is not None:
            values = (lane.relay, lane.index, lane.first_slot, lane.last_slot, asleep)
            if self._statements.set_asleep:  # the writers of an existing table know nothing of it
                await self._call(self._writer, lambda c: c.execute(self._statements.set_asleep, *values))
            self._watch.told(asleep=asleep)

    def _ring(self, *_: object) -> None:
        self._bell.set()

    # -- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        try:
            if self._lost is None and self._watch.asleep and not self._writer.turn.locked():
                async with asyncio.timeout(_GOODBYE_S):
                    await self._tell(asleep=False)
        except (FencepostError, TimeoutError):
            pass  # the writers go on notifying, which does no harm
        finally:
            self._lost = self._lost or "the session is closed"
            links = [link for link in (self._reader, self._writer) if not link.turn.locked()]
            await asyncio.gather(*(_leave(link.connection) for link in links))
            self._end(self._lost)

    def _connection_closed(self, _: object) -> None:
        self._end("the connection was closed")

    def _end(self, why: str) -> None:
        self._lost = self._lost or why
        for link in (self._reader, self._writer):
            link.connection.terminate()
        self._bell.set()


async def _decode(connection: Any, kind: str, decoder: Callable[[Any], object], form: str) -> None:
    await connection.set_type_codec(kind, schema="pg_catalog", encoder=str, decoder=decoder, format=form)


def _microseconds(since_2000: tuple[int]) -> int:
    """A time as PostgreSQL sends it, counted from 1970."""
    moment_us = since_2000[0] + _FROM_1970_TO_2000_US
    if not _EARLIEST_US <= moment_us <= _LATEST_US:
        raise ValueError("occurred_at is infinity, or outside the years 1 to 9999")
    return moment_us


async def _leave(connection: Any) -> None:
    with suppress(*ERRORS):
        await connection.close(timeout=_GOODBYE_S)


def _with_texts(rows: Sequence[tuple[Stored, str]]) -> list[tuple[str, Position, str]]:
    """(text, position, id) in the order of positions, so that two relays lock rows in the same order."""
    return sorted([(shortened(text), m.position, m.id) for m, text in rows], key=itemgetter(1))
