"""A session: two connections, of which one reads and the other writes. Each call is one transaction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fencepost.databases.other_sql.connection import ERRORS, GOODBYE_S, Outbox, Values, change, leave, rows
from fencepost.errors import ConnectionLost, DeadlineExceeded
from fencepost.message import Position, Stored, microseconds
from fencepost.ports import Lane
from fencepost.receipt import PositionRange, merged
from fencepost.sql import positions_other as passing
from fencepost.sql.session import ServerSession, Turns
from fencepost.sql.source import LOWEST, shortened
from fencepost.sql.source_other import named, placed, some, spans
from fencepost.sql.tables import State
from fencepost.sql.watch import Watch

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]

LONGEST_WAIT_S = 1.05
"""Between two looks of a reader that finds nothing: nobody announces a commit here."""

_LONG_S = 0.25
_ALIVE: Any = sa.select(sa.literal_column("1"))


class OtherSession(ServerSession):
    """``fencepost.ports.Session`` says what each call promises."""

    def __init__(self, outbox: Outbox, reader: AsyncConnection, writer: AsyncConnection) -> None:
        super().__init__(outbox)
        self._outbox, self._say = outbox, outbox.statements
        self._reader, self._writer = Turns(reader), Turns(writer)
        self._watch = Watch(outbox.options.clock)
        self._running: set[asyncio.Task[Any]] = set()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leaving: asyncio.Task[None] | None = None

    # -- reading ------------------------------------------------------------------------------------------------------

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        values = {"after_": LOWEST if after is None else int(after), "most_": limit, **_slots(lane)}
        query = self._say.pending if lane.whole else self._say.pending_in_slots

        async def read(connection: AsyncConnection) -> list[Stored]:
            return [_stored(row) for row in await rows(connection, query, values)]

        found = await self._call(self._reader, read)
        self._watch.found(found, after)
        return found

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        values = {"position_": int(position), "most_": limit, **_slots(lane)}
        query = self._say.below if lane.whole else self._say.below_in_slots
        return [int(seq) for (seq,) in await self._call(self._reader, lambda c: rows(c, query, values))]

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        async def look(connection: AsyncConnection) -> list[tuple[Position, str]]:
            found: set[tuple[int, str]] = set()
            for these in some(merged(ranges)):
                found |= {(int(seq), str(i)) for seq, i in await rows(connection, self._say.held, spans(these))}
            return [(seq, message_id) for seq, message_id in sorted(found)]

        return await self._call(self._writer, look)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        in_order = sorted(rows, key=lambda row: int(row[0]))  # so that two relays lock rows in the same order

        async def remove(connection: AsyncConnection) -> int:
            return sum([await change(connection, self._say.settle, named(these)) for these in some(in_order)])

        return await self._call(self._writer, remove)

    async def reserve(self, position: Position) -> bool:
        wanted, t = int(position), self._outbox.tables
        if passing.draw(t, self._outbox.dialect) is None:
            return await self._move_identity(wanted)
        behind = (drawn := await self._draw(1)) <= wanted
        while drawn < wanted:
            drawn = await self._draw(min(wanted - drawn, passing.DRAW_MAX))
        return behind

    async def _draw(self, count: int) -> int:
        query = passing.draw(self._outbox.tables, self._outbox.dialect)
        return max(int(seq) for (seq,) in await self._call(self._writer, lambda c: rows(c, query, {"count_": count})))

    async def _move_identity(self, wanted: int) -> bool:
        last = passing.last_drawn(self._outbox.tables, self._outbox.dialect)

        async def move(connection: AsyncConnection) -> bool:
            ((drawn,),) = await rows(connection, last)
            if (drawn or 0) >= wanted:
                return False
            await connection.execute(passing.at(self._outbox.tables), {"position_": wanted})
            await connection.rollback()
            return True

        return await self._call(self._writer, move)

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        await self._each(self._say.in_doubt, [{**_place(m), "token_": token} for m in rows])

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        await self._each(self._say.failed, [{**_place(m), "text_": shortened(error)} for m, error in rows])

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        values = [{**_place(m), "text_": shortened(reason)} for m, reason in rows]

        async def move(connection: AsyncConnection) -> None:
            for one in sorted(values, key=_position):
                await self._move(connection, one)

        await self._call(self._writer, move)

    async def _move(self, connection: AsyncConnection, one: dict[str, Any]) -> None:
        place = {name: one[name] for name in ("position_", "id_")}
        if await rows(connection, self._say.lock, place):
            await change(connection, self._say.forget, {"id_": one["id_"]})
            await change(connection, self._say.park, one)
            await change(connection, self._say.remove, place)

    async def _each(self, statement: Any, values: Sequence[Values]) -> None:
        """The statement for each, in one transaction."""

        async def work(connection: AsyncConnection) -> None:
            for one in sorted(values, key=_position):
                await connection.execute(statement, one)

        await self._call(self._writer, work)

    # -- delayed messages ---------------------------------------------------------------------------------------------

    async def release_due(self, limit: int) -> float | None:
        async def release(connection: AsyncConnection) -> float | None:
            due = sorted(int(seq) for (seq,) in await rows(connection, self._say.due, {"most_": limit}))
            for these in some(due):
                await change(connection, self._say.release, placed(these))
            ((next_s,),) = await rows(connection, self._say.next_due)
            return None if next_s is None else max(0.0, float(next_s))

        return await self._call(self._writer, release)

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        """Short waits at first, then longer ones: who finds nothing looks about once a second."""
        self._must_live()
        wait_s = self._watch.next_wait_s(min(timeout_s, LONGEST_WAIT_S))
        await asyncio.wait({self._ended}, timeout=wait_s)
        self._must_live()
        if wait_s >= _LONG_S:
            await self._call(self._writer, lambda c: rows(c, _ALIVE))  # nobody tells when a connection has ended

    # -- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        self._end("the session is closed")
        if self._leaving is not None:
            await asyncio.wait({self._leaving}, timeout=2 * GOODBYE_S)

    def _end(self, why: str) -> None:
        """End every call, then the connections: not even a cancelled one goes on using them."""
        self._lost = self._lost or why
        for task in self._running:
            task.cancel()
        if not self._ended.done():
            self._ended.set_result(None)
            self._leaving = asyncio.ensure_future(self._leave(set(self._running)))

    async def _leave(self, cancelled: set[asyncio.Task[Any]]) -> None:
        if cancelled:
            await asyncio.wait(cancelled, timeout=GOODBYE_S)
        await asyncio.gather(*(leave(link.connection) for link in (self._reader, self._writer)))

    async def _call(self, link: Turns, work: Work[T]) -> T:
        """One transaction on one connection, in time. What leaves it unknown what the server did ends the session.

        It comes to its end also where the caller is cancelled: not every driver can break a statement off.
        """
        self._must_live()
        task = asyncio.ensure_future(_transaction(link, work))
        self._running.add(task)
        task.add_done_callback(self._done)
        either: set[asyncio.Future[Any]] = {task, self._ended}
        await asyncio.wait(either, timeout=self._limit_s, return_when=asyncio.FIRST_COMPLETED)
        return self._result(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be there any more to be told of it

    @property
    def _limit_s(self) -> float:
        return self._outbox.options.timeout_s

    def _result(self, task: asyncio.Task[T]) -> T:
        if not task.done():
            if self._lost is None:
                self._end(f"no answer within {self._limit_s:g} s")
                raise self._outbox.fault_of(TimeoutError())
            self._must_live()
        error = task.exception()
        if not isinstance(error, ERRORS):
            return task.result()
        fault = self._outbox.fault_of(error)
        if isinstance(fault, ConnectionLost | DeadlineExceeded):
            self._end(fault.what.removeprefix(f"{self._outbox.place}: "))
        raise fault from error


async def _transaction(link: Turns, work: Work[T]) -> T:
    async with link.turn:
        try:
            result = await work(link.connection)
            await link.connection.commit()
        except ERRORS:
            with suppress(*ERRORS):  # a connection that is gone says so with the first error
                await link.connection.rollback()
            raise
        return result


def _stored(row: Sequence[Any]) -> Stored:
    position, id_, topic, key, version, kind, payload, content_type, headers, occurred_at, attempts, state = row
    drawn = version if version is not None else position
    return Stored(
        int(position),
        str(id_),
        topic,
        key,
        None if key is None else int(drawn),
        kind,
        None if payload is None else bytes(payload),
        content_type,
        None if headers is None else json.loads(headers),
        microseconds(occurred_at),
        int(attempts),
        int(state) == int(State.SENDING),
    )


def _slots(lane: Lane) -> dict[str, int]:
    return {} if lane.whole else {"first_": lane.first_slot, "last_": lane.last_slot}


def _place(message: Stored) -> dict[str, Any]:
    return {"position_": int(message.position), "id_": message.id}


def _position(values: Values) -> Any:
    return values["position_"]
