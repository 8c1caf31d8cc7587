"""Every contract between the core and its plug-ins: Source, Broker, LeaseStore, and the values that cross them.

Common rules. Each call has a deadline of its own and raises DeadlineExceeded rather than hang (a server that accepts
connections and never answers is a fault like any other). Each error is one of the four families of fencepost.errors.
All calls are made in one event loop; none of them blocks it for longer than one batch takes to be encoded.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.errors import ParkError
from fencepost.existing import ExistingTable
from fencepost.message import SLOTS, Position, Stored
from fencepost.receipt import PositionRange, Receipts


@dataclass(frozen=True, slots=True)
class Lane:
    """A contiguous range of slots with exactly one owner at a time. ``relay`` is the relay's name (a-z 0-9 -),
    ``index`` counts from 0.
    """

    relay: str
    index: int = 0
    first_slot: int = 0
    last_slot: int = SLOTS - 1

    @property
    def name(self) -> str:
        """The lane's name at the broker and at the lease store, for example "orders.0"."""
        return f"{self.relay}.{self.index}"

    @property
    def whole(self) -> bool:
        """True where the lane has every slot, so that a query need not look at slots at all."""
        return self.first_slot == 0 and self.last_slot == SLOTS - 1


@dataclass(frozen=True, slots=True)
class Term:
    """One tenure of one owner. ``token`` only grows from term to term of a name."""

    name: str
    owner: str
    token: int
    early: bool = False
    """The last owner's session was seen to be gone before its lease had ended."""


class Delivery(enum.Enum):
    """What a broker can give (the classes of brokers in docs/guarantees.md)."""

    ATOMIC = "exactly-once"
    """A batch and its receipt become visible together, and earlier owners are fenced."""
    DEDUPLICATING = "deduplicated"
    """The broker recognises a repeated id inside a window of its own."""
    PLAIN = "at-least-once"
    """Repeats are possible; they carry the same id and are marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a broker gives, learnt when it was opened. ``reason`` says in one line why it is not more ("" where it is
    atomic).
    """

    delivery: Delivery
    reason: str = ""
    batch_max: int | None = None
    """The most messages of one batch; None where there is no limit."""
    message_bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """One message that the broker does not take, and why."""

    message: Stored
    error: ParkError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch: ``published`` in the order of the batch, ``failed`` alone. What is in neither was not
    sent.
    """

    published: Sequence[Stored]
    failed: Sequence[Failure] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """Where a broker is. ``source`` is the CloudEvents source. ``settings`` are the plug-in's own; it refuses unknown
    ones.

    ``create`` allows the plug-in to create the topics or streams that it needs.
    """

    url: str
    source: str
    create: bool = True
    timeout_s: float = 30.0
    settings: Mapping[str, object] = field(default_factory=dict)
    clock: Clock = SYSTEM_CLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOptions:
    """Where leases are kept. ``settings`` are the plug-in's own; it refuses unknown ones."""

    url: str
    schema: str | None = None
    prefix: str = "fencepost_"
    timeout_s: float = 5.0
    settings: Mapping[str, object] = field(default_factory=dict)
    clock: Clock = SYSTEM_CLOCK


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


class Handoff(Protocol):
    """The right to publish on one lane, from a take-over to its first trouble.

    After any error from ``publish`` other than ParkErrors inside an Outcome the handoff is void: the owner takes over
    again, which tells what really happened, and closes this one.
    """

    @property
    def receipts(self) -> Receipts:
        """The receipts of the lane: those read at take-over, then those of the batches published here."""
        ...

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """Publish a batch, in order.

        Atomic brokers: either every message and the receipt become visible together (``failed`` is empty), or none
        does and ``failed`` names the ones that the broker does not take, as many as could be found. Others: each
        message alone. Raises Fenced where a later take-over has happened; RetryError where nobody knows.
        """
        ...

    async def close(self) -> None:
        """Let go without publishing. Never raises. What was being published is aborted where the broker can."""
        ...


class Broker(Protocol):
    """Where messages go."""

    async def open(self) -> Capabilities:
        """Connect and learn what this server can give. Raises FixError for what a person must change, RetryError
        otherwise.
        """
        ...

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """Get ready for a take-over without fencing anybody: connections, metadata, the place of the receipts. May be
        called often.
        """
        ...

    async def take_over(self, lane: Lane, term: Term) -> Handoff:
        """Fence every earlier owner of the lane and read its receipts. After this returns no earlier owner can
        publish on the lane.
        """
        ...

    async def close(self) -> None:
        """Close every connection. Never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who has a lease, as the store sees it. ``remaining_s`` is at most 0 where it has ended."""

    owner: str
    token: int
    remaining_s: float
    held_s: float


class LeaseStore(Protocol):
    """Where leases are kept. The store's clock judges expiry.

    ``fences`` says in a few words what a token of this store protects ("rows of the same database", "nothing by
    itself").
    """

    @property
    def fences(self) -> str: ...

    async def open(self) -> None:
        """Connect. Raises FixError for what a person must change, RetryError otherwise. May be called again after a
        fault.
        """
        ...

    async def rehearse(self) -> None:
        """See whether leases could be taken, and change nothing. Raises AccessDenied where this user may not take any,
        Unavailable where nobody may now.
        """
        ...

    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        """A new term with a larger token than any before; None where another owner has the lease and is not seen to
        be gone.
        """
        ...

    async def renew(self, term: Term, ttl_s: float) -> bool:
        """Extend exactly this term. False where it is not the current one (any more): it is over for good."""
        ...

    async def release(self, term: Term) -> None:
        """End exactly this term and wake those who wait. Releasing a term that is over does nothing."""
        ...

    async def wait(self, name: str, timeout_s: float) -> None:
        """Return when the lease may have become free, at the latest after ``timeout_s``. May return early.

        The owner may wait too: it returns when its term may have been lost.
        """
        ...

    async def holder(self, name: str) -> Holder | None:
        """Who has the lease, None where nobody ever had it or it was released."""
        ...

    async def close(self) -> None:
        """Close the connection. Never raises. Session evidence of terms that are still held ends with it."""
        ...
