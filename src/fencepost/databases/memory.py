"""An outbox in this process's memory: for tests, simulations and demonstrations. Nothing survives the process.

``memory://NAME`` names a database that everyone in the process shares. It behaves as a real one does (positions are
drawn when a message is added and never come back; transactions commit late, in any order, or never) and has plain
methods for trouble: fall back to an earlier snapshot, cut connections, and those of its gate. One event loop at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Self

from fencepost import gate
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.errors import (
    ConfigurationError,
    ConnectionLost,
    Contention,
    DeadlineExceeded,
    NoTransaction,
    VersionConflict,
)
from fencepost.message import Message, Position, Stored, check, microseconds, slot_of
from fencepost.ports import Backlog, DatabaseOptions, Lane
from fencepost.receipt import PositionRange

ERROR_CHARACTERS_MAX = 2_000
"""Longer error texts and reasons are cut."""

_Entity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """A message as it waits. ``available_at`` is None unless it is delayed; ``token`` is of whoever put it in doubt."""

    message: Stored
    slot: int
    available_at: datetime | None = None
    token: int | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class ParkedRow:
    """A message that was set aside, and why."""

    message: Stored
    parked_at: datetime
    reason: str


@dataclass(slots=True)
class _State:
    """Everything that is durable. Rows are frozen, so a copy is a snapshot."""

    rows: dict[int, Row] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)  # the keys of rows, sorted
    parked: dict[str, ParkedRow] = field(default_factory=dict)
    versions: dict[_Entity, int] = field(default_factory=dict)
    next_position: int = 1

    def copy(self) -> _State:
        return replace(
            self, rows=dict(self.rows), order=self.order[:], parked=dict(self.parked), versions=dict(self.versions)
        )

    def insert(self, row: Row) -> None:
        position = int(row.message.position)
        self.rows[position] = row
        insort(self.order, position)

    def matching(self, position: Position, message_id: str) -> Row | None:
        """The row that has this position and this id."""
        row = self.rows.get(position) if isinstance(position, int) else None
        return row if row is not None and row.message.id == message_id else None

    def change(self, row: Row) -> None:
        self.rows[int(row.message.position)] = row

    def remove(self, positions: set[int]) -> None:
        for position in positions:
            del self.rows[position]
        if positions:
            self.order = [p for p in self.order if p not in positions]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A database as it was. Made by ``MemoryDatabase.snapshot``."""

    _state: _State


class Transaction:
    """A local transaction: what it adds is seen by nobody before ``commit``.

    As a context manager it commits, or rolls back on an error.
    """

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database
        self._rows: list[Row] = []
        self._versions: dict[_Entity, int] = {}
        self._open = True

    def add(self, message: Message) -> Message:
        """Add a message at the next position; return it with its version.

        Raises MessageRefused, VersionConflict, NoTransaction (it has ended), or Contention where another open
        transaction has added to the same entity: where a real database would let this one wait.
        """
        self._must_be_open()
        check(message, max_bytes=None)
        if message.key is not None:
            message = replace(message, version=self._draw(message, message.key))
        self._rows.append(self._database._row(message))
        return message

    def commit(self) -> None:
        """Make everything visible at once. Raises ConnectionLost, nothing committed, where the connection was cut."""
        self._must_be_open()
        self._end()
        self._database._commit(self._rows, self._versions)

    def rollback(self) -> None:
        """Forget everything. Positions that were drawn stay drawn."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def _must_be_open(self) -> None:
        if not self._open:
            raise NoTransaction("this transaction has ended", remedy="begin another one")
        if self not in self._database._transactions:
            self._end()
            raise ConnectionLost(f"{self._database.url} has cut the connection; the transaction is rolled back")

    def _end(self) -> None:
        self._open = False
        self._database._transactions.discard(self)

    def _draw(self, message: Message, key: str) -> int:
        entity = (message.topic, key)
        if any(entity in t._versions for t in self._database._transactions if t is not self):
            raise Contention(f"another transaction has added to {entity!r} and is still open")
        last = self._versions.get(entity, self._database._state.versions.get(entity, 0))
        version = last + 1 if message.version is None else message.version
        if version <= last:
            raise VersionConflict(f"version {version} of {entity!r} is not above {last}")
        self._versions[entity] = version
        return version


class MemoryDatabase:
    """The shared database. What a test may look at and do to it.

    ``gate`` pauses it, makes calls fail or loses their answers. ``settled`` lists what was settled, in order.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self.gate = gate.Gate(url)
        self.settled: list[tuple[int, str]] = []
        self._state = _State()
        self._transactions: set[Transaction] = set()
        self._sessions: set[MemorySession] = set()
        self._commits = 0
        self._bells: gate.Bells = set()

    @property
    def rows(self) -> list[Row]:
        """Everything that waits, lowest position first."""
        return [self._state.rows[p] for p in self._state.order]

    @property
    def parked(self) -> list[ParkedRow]:
        """Everything that was set aside, in the order in which it was."""
        return list(self._state.parked.values())

    @property
    def sessions(self) -> list[MemorySession]:
        """The sessions that are open."""
        return list(self._sessions)

    def transaction(self) -> Transaction:
        """Begin a transaction."""
        transaction = Transaction(self)
        self._transactions.add(transaction)
        return transaction

    def snapshot(self) -> Snapshot:
        """What is committed now, to fall back to."""
        return Snapshot(self._state.copy())

    def fall_back(self, snapshot: Snapshot) -> None:
        """Become what the database was, as a fail-over to a late replica or a restored backup does.

        Connections end, open transactions roll back, settled messages wait again, positions are handed out again.
        """
        self.cut()
        self._state = snapshot._state.copy()

    def cut(self) -> None:
        """End every connection: sessions are lost, open transactions roll back."""
        self._transactions.clear()
        for session in tuple(self._sessions):
            session._end()

    def _row(self, message: Message) -> Row:
        position = self._state.next_position
        self._state.next_position += 1
        m = message
        headers, moment_us = dict(m.headers) if m.headers else None, microseconds(m.occurred_at)
        stored = Stored(
            position, m.id, m.topic, m.key, m.version, m.type, m.payload, m.content_type, headers, moment_us
        )
        delayed = m.available_at is not None and m.available_at > self.clock.now()
        return Row(stored, slot_of(m.key, m.id), m.available_at if delayed else None)

    def _commit(self, rows: Sequence[Row], versions: dict[_Entity, int]) -> None:
        for row in rows:
            self._state.insert(row)
        self._state.versions.update(versions)
        self._commits += 1
        gate.ring(self._bells)


class MemorySession:
    """One connection. ``fencepost.ports.Session`` says what each call promises."""

    def __init__(self, database: MemoryDatabase, options: DatabaseOptions) -> None:
        self._database = database
        self._clock = options.clock
        self._timeout_s = options.timeout_s
        self._alive = True
        self._bells: gate.Bells = set()
        self._seen = -1  # how many commits there were at the last pending()

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        async with self._call("pending") as state:
            self._seen = self._database._commits
            start = 0 if after is None else bisect_right(state.order, int(after))
            return list(islice(_publishable(state, lane, start), limit))

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
        self._end()

    @asynccontextmanager
    async def _call(self, name: str) -> AsyncIterator[_State]:
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
            self._end()
            raise

    def _must_be_alive(self) -> None:
        if not self._alive:
            raise ConnectionLost(f"the session with {self._database.url} has ended")

    def _end(self) -> None:
        self._alive = False
        self._database._sessions.discard(self)
        gate.ring(self._bells)


def _publishable(state: _State, lane: Lane, start: int) -> Iterable[Stored]:
    for position in islice(state.order, start, None):
        row = state.rows[position]
        if row.available_at is None and lane.first_slot <= row.slot <= lane.last_slot:
            yield row.message


def _between(order: Sequence[int], first: int, last: int) -> Sequence[int]:
    return order[bisect_left(order, first) : bisect_right(order, last)]


class MemorySource:
    """An outbox that a relay reads."""

    def __init__(self, database: MemoryDatabase, options: DatabaseOptions) -> None:
        self._database = database
        self._options = options

    async def connect(self) -> MemorySession:
        await self._database.gate.enter("connect", self._options.clock, self._options.timeout_s, set())
        session = MemorySession(self._database, self._options)
        self._database._sessions.add(session)
        return session

    async def backlog(self) -> Backlog:
        await self._database.gate.enter("backlog", self._options.clock, self._options.timeout_s, set())
        pending = [row for row in self._database.rows if row.available_at is None]
        oldest = min((row.message.occurred_at for row in pending), default=None)
        return Backlog(
            pending=len(pending),
            delayed=len(self._database.rows) - len(pending),
            parked=len(self._database.parked),
            oldest_age_s=None if oldest is None else (self._database.clock.now() - oldest).total_seconds(),
        )


class MemorySchema:
    """There are no tables: nothing to create, nothing that can be missing."""

    def statements(self) -> Sequence[str]:
        return ()

    async def apply(self) -> Sequence[str]:
        return ()

    async def missing(self) -> Sequence[str]:
        return ()


_DATABASES: dict[tuple[str, str | None, str], MemoryDatabase] = {}


def database(
    url: str, *, schema: str | None = None, prefix: str = "fencepost_", clock: Clock = SYSTEM_CLOCK
) -> MemoryDatabase:
    """The database of this URL, which everyone in the process shares; each schema and prefix has an outbox of its own.

    ``clock`` counts for the first who asks. Raises ConfigurationError where the URL is not memory://NAME.
    """
    scheme, _, name = url.partition("://")
    if scheme != "memory" or not name:
        raise ConfigurationError(f"{url!r} is not the URL of a database in memory", remedy="write memory://NAME")
    return _DATABASES.setdefault((url, schema, prefix), MemoryDatabase(url, clock))


def forget(url: str) -> None:
    """Drop a shared database, whatever it holds."""
    for place in [place for place in _DATABASES if place[0] == url]:
        _DATABASES.pop(place).cut()


def source(options: DatabaseOptions) -> MemorySource:
    """The plug-in's factory for sources."""
    return MemorySource(
        database(options.url, schema=options.schema, prefix=options.prefix, clock=options.clock), options
    )


def schema(options: DatabaseOptions) -> MemorySchema:
    """The plug-in's factory for schemas."""
    database(options.url, schema=options.schema, prefix=options.prefix, clock=options.clock)
    return MemorySchema()
