"""The shared database in memory, and the transactions of those who write to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, Self

from fencepost import gate
from fencepost.clock import Clock
from fencepost.databases.memory.rows import Entity, ParkedRow, Row, Snapshot, State
from fencepost.errors import ConnectionLost, Contention, NoTransaction, VersionConflict
from fencepost.message import Message, Stored, check, slot_of


class Connected(Protocol):
    """Somebody who is connected, and whom trouble can cut off."""

    def end(self) -> None:
        """The connection is over."""
        ...


class Transaction:
    """A local transaction: what it adds is seen by nobody before ``commit``.

    As a context manager it commits, or rolls back on an error.
    """

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database
        self._rows: list[Row] = []
        self._versions: dict[Entity, int] = {}
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

    def put_back(self, message: Message) -> None:
        """The same for a message that was parked. One with a version keeps it, however old it is."""
        self._must_be_open()
        if message.key is not None and message.version is None:
            message = replace(message, version=self._draw(message, message.key))
        self._rows.append(self._database._row(message))

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
        self._database._transactions.pop(self, None)

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
        self._state = State()
        self._transactions: dict[Transaction, None] = {}
        self._sessions: dict[Connected, None] = {}  # in order: a simulation must be the same each time
        self._commits = 0
        self._bells = gate.Bells()

    @property
    def rows(self) -> list[Row]:
        """Everything that waits, lowest position first."""
        return [self._state.rows[p] for p in self._state.order]

    @property
    def parked(self) -> list[ParkedRow]:
        """Everything that was set aside, in the order in which it was."""
        return list(self._state.parked.values())

    @property
    def sessions(self) -> list[Connected]:
        """The sessions that are open."""
        return list(self._sessions)

    def transaction(self) -> Transaction:
        """Begin a transaction."""
        transaction = Transaction(self)
        self._transactions[transaction] = None
        return transaction

    def snapshot(self) -> Snapshot:
        """What is committed now, to fall back to."""
        return Snapshot(self._state.copy())

    def fall_back(self, snapshot: Snapshot) -> None:
        """Become what the database was, as a fail-over to a late replica or a restored backup does.

        Connections end, open transactions roll back, settled messages wait again, positions are handed out again.
        """
        self.cut()
        self._state = snapshot.state.copy()

    def cut(self) -> None:
        """End every connection: sessions are lost, open transactions roll back."""
        self._transactions.clear()
        for session in tuple(self._sessions):
            session.end()

    def _row(self, message: Message) -> Row:
        position = self._state.next_position
        self._state.next_position += 1
        delayed = message.available_at is not None and message.available_at > self.clock.now()
        slot = slot_of(message.key, message.id)
        return Row(Stored.of(position, message), slot, message.available_at if delayed else None)

    def _commit(self, rows: Sequence[Row], versions: dict[Entity, int]) -> None:
        for row in rows:
            self._state.insert(row)
        self._state.versions.update(versions)
        self._commits += 1
        gate.ring(self._bells)
