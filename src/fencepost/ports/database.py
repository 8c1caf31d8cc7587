"""What the core asks of a database: an outbox that is read, settled, parked from, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.existing import ExistingTable
from fencepost.message import Position, Stored
from fencepost.ports.tenure import Lane
from fencepost.receipt import PositionRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """``pending`` messages may be published now; ``delayed`` ones not yet. ``oldest_age_s`` is that of the oldest
    pending one by occurred_at, None where there is none.
    """

    pending: int
    delayed: int
    parked: int
    oldest_age_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """Where a database is and how the tables are called. ``schema`` None is the connection's default.

    ``settle`` "delete" removes what is settled, "mark" keeps it until it is purged (see ``Purging``). ``table`` is a
    table of somebody else that is the outbox.
    """

    url: str
    schema: str | None = None
    prefix: str = "fencepost_"
    timeout_s: float = 30.0
    clock: Clock = SYSTEM_CLOCK
    settle: Literal["delete", "mark"] = "delete"
    table: ExistingTable | None = None


class Session(Protocol):
    """One connection to an outbox, from connect to its first trouble.

    A session never reconnects by itself: after ConnectionLost or DeadlineExceeded every call raises ConnectionLost,
    and the owner opens a new session, which it begins by settling the receipts (a database that fell back has
    forgotten settles). ``pending`` and one of the other calls may run at the same time; the session orders them where
    its driver needs that.
    """

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        """Up to ``limit`` pending messages of the lane that are visible now and may be published, lowest position
        first.

        Only those above position ``after``, where it is given. Fewer than ``limit`` means that there are no more.
        All rows of one answer were visible at the same moment. Where an outbox has several partitions, that holds for
        the rows of each key: nothing is promised between two keys.
        """
        ...

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        """The positions, up to and with this one, of pending messages as ``pending`` would give them now, at most
        ``limit``, lowest first.

        A call that begins after ``pending`` has returned sees at least every commit that ``pending`` saw.
        """
        ...

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        """Settle the messages that have this position *and* this id; return how many there were. Durable when it
        returns.
        """
        ...

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        """(position, id) of every message that still waits (pending, in doubt or delayed) inside the ranges."""
        ...

    async def reserve(self, position: Position) -> bool:
        """Make sure that no position up to this one is handed out from now on. True where some of them could have
        been.
        """
        ...

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        """Mark messages as being sent by the owner with this token (plain brokers, before they are sent). Durable
        when it returns.
        """
        ...

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        """Add one attempt to each message and keep the error's text (truncated), in one transaction."""
        ...

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        """Move messages to the parked ones with a reason (truncated) and one more attempt, the one that failed last,
        matching position and id, in one transaction.
        """
        ...

    async def release_due(self, limit: int) -> float | None:
        """Make up to ``limit`` delayed messages pending whose time has come; seconds until the next one is due, None
        for never.
        """
        ...

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        """Return when a message may have been added since the last ``pending``, at the latest after ``timeout_s``.
        May return early.
        """
        ...

    async def close(self) -> None:
        """Give the connection back. Never raises; ends a call that is still running."""
        ...


class Source(Protocol):
    """An outbox that a relay reads."""

    async def connect(self) -> Session:
        """A new session. Raises SchemaMissing or AccessDenied (fix), Unavailable or DeadlineExceeded (retry)."""
        ...

    async def backlog(self) -> Backlog:
        """What waits, for people to see. On a connection of its own."""
        ...


class Purger(Protocol):
    """A connection that removes settled rows, some at a time. After an error it is of no more use."""

    async def purge(self, older_than_s: float, limit: int) -> int:
        """Remove up to ``limit`` rows that were settled longer ago than this, the oldest first; return how many.

        A row that is not settled is never touched, whatever its age. No writer is made to wait for longer than one
        small transaction lasts, and no transaction waits for another one here.
        """
        ...

    async def count(self, older_than_s: float) -> int:
        """How many rows were settled longer ago than this."""
        ...

    async def close(self) -> None:
        """Give the connection back. Never raises."""
        ...


@runtime_checkable
class Purging(Protocol):
    """A source whose settled rows can be kept and purged."""

    async def purger(self) -> Purger:
        """A new connection for it. Raises what ``Source.connect`` raises; ConfigurationError where settled rows are
        deleted at once.
        """
        ...


@runtime_checkable
class Limited(Protocol):
    """A source whose outbox does not give all that Fencepost's own tables give."""

    @property
    def limits(self) -> Sequence[str]:
        """What it does not give, one line each."""
        ...

    @property
    def marks_doubt(self) -> bool:
        """Whether messages can be marked as being sent, without which a plain broker must not be used."""
        ...


class Schema(Protocol):
    """The tables of an outbox."""

    def statements(self) -> Sequence[str]:
        """The DDL, one statement each, in order. Running them twice is harmless."""
        ...

    async def apply(self) -> Sequence[str]:
        """Create what is missing; return the names of what was created, as ``missing`` tells them."""
        ...

    async def missing(self) -> Sequence[str]:
        """The names of tables that do not exist, and of columns ("table.column") and indexes that others lack."""
        ...
