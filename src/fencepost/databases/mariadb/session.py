"""A session: two connections to one server that live and die together.

One reads, the other settles and writes, so that a batch can be fetched while the last one is settled. Each read is a
statement of its own, in autocommit, so that it sees what is committed now and holds no snapshot.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from asyncmy import errors

from fencepost.databases.mariadb.connection import Connection, Outbox, Rows
from fencepost.databases.mariadb.faults import ERRORS
from fencepost.message import Position, Stored
from fencepost.ports import Lane
from fencepost.receipt import PositionRange, merged
from fencepost.sql.session import ServerSession, Turns
from fencepost.sql.source import LOWEST, shortened
from fencepost.sql.watch import Watch

T = TypeVar("T")

LONGEST_WAIT_S = 1.05
"""Between two looks of a reader that finds nothing: nobody announces a commit here."""

_ROWS_AT_ONCE = 5_000
_NARROW = 16  # ranges up to this width are looked up position by position, which costs a third of a range each
_GOODBYE_S = 0.5


class MariadbSession(ServerSession):
    """``fencepost.ports.Session`` says what each call promises."""

    def __init__(self, outbox: Outbox, reader: Connection, writer: Connection) -> None:
        super().__init__(outbox)
        self._outbox, self._statements = outbox, outbox.statements
        self._reader, self._writer = Turns(reader), Turns(writer)
        self._watch = Watch(outbox.options.clock)
        self._ended = asyncio.Event()
        self._watching = [asyncio.ensure_future(self._end_with(link.connection)) for link in self._links]

    # -- reading ------------------------------------------------------------------------------------------------------

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        text, slots = _in_lane(lane, self._statements.pending, self._statements.pending_in_slots)
        rows = _stored(await self._rows(self._reader, text, LOWEST if after is None else after, *slots, limit))
        self._watch.found(rows, after)
        return rows

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        text, slots = _in_lane(lane, self._statements.below, self._statements.below_in_slots)
        return [seq for (seq,) in await self._rows(self._reader, text, position, *slots, limit)]

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        narrow, wide = _by_width(merged(ranges))
        found: list[tuple[int, str]] = []
        for positions in _chunks(narrow):
            found += await self._rows(self._writer, self._statements.held_at, _json(positions))
        for wide_ones in _chunks(wide):
            found += await self._rows(self._writer, self._statements.held, _json(wide_ones))
        return sorted(found)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        return sum([await self._change(self._statements.settle, _json(chunk)) for chunk in _chunks(_in_order(rows))])

    async def reserve(self, position: Position) -> bool:
        """A row at this position is inserted and taken back: the counter has moved past it, and does not move back.

        ALTER TABLE would wait for every open transaction of the table, and every new one for it.
        """
        wanted = int(position)
        behind = await self._next_position() <= wanted
        while await self._next_position() <= wanted:
            await self._call(self._writer, lambda c: self._pass(c, wanted))
        return behind

    async def _next_position(self) -> int:
        rows = await self._rows(self._writer, NEXT, self._outbox.database, self._outbox.tables.outbox.name)
        return int(rows[0][0])

    async def _pass(self, connection: Connection, position: int) -> None:
        await connection.say("BEGIN")
        with suppress(errors.IntegrityError):  # somebody has drawn it meanwhile
            await connection.change(insert_at(self._outbox), position)
        await connection.say("ROLLBACK")

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        for chunk in _chunks(_in_order([(m.position, m.id) for m in rows])):
            await self._change(self._statements.in_doubt, _json(chunk), token)

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        await self._each(_with_texts(rows), lambda row: [(self._statements.failed, row)])

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        said = self._statements
        await self._each(_with_texts(rows), lambda row: [(said.copy_to_parked, row), (said.remove, row[1:])])

    async def _each(self, rows: Iterable[Any], statements: Callable[[Any], Sequence[tuple[str, Any]]]) -> None:
        """These statements for each row, in one transaction."""

        async def work(connection: Connection) -> None:
            await connection.say("BEGIN")
            try:
                for row in rows:
                    for text, arguments in statements(row):
                        await connection.change(text, *arguments)
            except errors.MySQLError:
                with suppress(*ERRORS):
                    await connection.say("ROLLBACK")
                raise
            await connection.say("COMMIT")

        await self._call(self._writer, work)

    # -- delayed messages ---------------------------------------------------------------------------------------------

    async def release_due(self, limit: int) -> float | None:
        due = await self._rows(self._writer, self._statements.due, limit)
        if due:
            await self._change(self._statements.release_due, _json(sorted(seq for (seq,) in due)))
        rows = await self._rows(self._writer, self._statements.next_due)
        return max(0.0, float(rows[0][0])) if rows else None

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        """Short waits at first, then longer ones: who finds nothing looks about once a second."""
        self._must_live()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._watch.next_wait_s(min(timeout_s, LONGEST_WAIT_S))):
                await self._ended.wait()
        self._must_live()

    # -- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        self._lost = self._lost or "the session is closed"
        links = [link for link in self._links if not link.turn.locked()]
        await asyncio.gather(*(_leave(link.connection) for link in links))
        self._end(self._lost)

    @property
    def _links(self) -> tuple[Turns, Turns]:
        return self._reader, self._writer

    async def _end_with(self, connection: Connection) -> None:
        await connection.closed()
        self._end("the connection was closed")

    def _end(self, why: str) -> None:
        self._lost = self._lost or why
        for link in self._links:
            link.connection.end()
        self._ended.set()

    async def _rows(self, link: Turns, text: str, *arguments: object) -> Rows:
        return await self._call(link, lambda connection: connection.rows(text, *arguments))

    async def _change(self, text: str, *arguments: object) -> int:
        return await self._call(self._writer, lambda connection: connection.change(text, *arguments))


NEXT = "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?"
"""(database, table): the position that is handed out next."""


def insert_at(outbox: Outbox) -> str:
    """(position): a row that nobody is to see."""
    columns = "seq, id, topic, type, slot, content_type, occurred_at"
    values = "?, '', '', '', 0, '', UTC_TIMESTAMP(6)"
    return f"INSERT INTO {outbox.quoted(outbox.tables.outbox)} ({columns}) VALUES ({values})"  # noqa: S608


def _stored(rows: Rows) -> list[Stored]:
    new, parsed = tuple.__new__, json.loads  # Stored(...) takes half as long again
    return [
        new(Stored, (p, i, t, k, v, y, b, c, h if h is None else parsed(h), o, a, d == 1))
        for p, i, t, k, v, y, b, c, h, o, a, d in rows
    ]


def _in_lane(lane: Lane, whole: str, in_slots: str) -> tuple[str, list[int]]:
    return (whole, []) if lane.whole else (in_slots, [lane.first_slot, lane.last_slot])


def _by_width(ranges: Iterable[PositionRange]) -> tuple[list[int], list[tuple[int, int]]]:
    """Every position of the narrow ranges, and the wide ranges."""
    narrow: list[int] = []
    wide: list[tuple[int, int]] = []
    for first, last in ranges:
        if int(last) - int(first) < _NARROW:
            narrow += range(int(first), int(last) + 1)
        else:
            wide.append((int(first), int(last)))
    return narrow, wide


def _chunks(items: Sequence[T]) -> Iterable[Sequence[T]]:
    return (items[start : start + _ROWS_AT_ONCE] for start in range(0, len(items), _ROWS_AT_ONCE))


def _in_order(rows: Sequence[tuple[Position, str]]) -> list[tuple[int, str]]:
    """In the order of positions, so that two relays lock rows in the same order."""
    return sorted((int(position), message_id) for position, message_id in rows)


def _json(items: Sequence[object]) -> str:
    return json.dumps(items, separators=(",", ":"))


async def _leave(connection: Connection) -> None:
    with suppress(TimeoutError, *ERRORS):
        async with asyncio.timeout(_GOODBYE_S):
            await connection.leave()


def _with_texts(rows: Sequence[tuple[Stored, str]]) -> list[tuple[str, Position, str]]:
    """(text, position, id) in the order of positions, so that two relays lock rows in the same order."""
    return sorted([(shortened(text), m.position, m.id) for m, text in rows], key=lambda row: int(row[1]))
