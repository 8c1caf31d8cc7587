"""What a database in memory keeps: rows that wait, rows that are parked, the versions of entities."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field, replace
from datetime import datetime

from fencepost.message import Position, Stored

Entity = tuple[str, str]
"""Topic and key."""


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
class State:
    """Everything that is durable. Rows are frozen, so a copy is a snapshot."""

    rows: dict[int, Row] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)  # the keys of rows, sorted
    parked: dict[str, ParkedRow] = field(default_factory=dict)
    versions: dict[Entity, int] = field(default_factory=dict)
    next_position: int = 1

    def copy(self) -> State:
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

    state: State
