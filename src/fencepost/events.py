"""Frozen records of what happened, and the Observer that is told of them: the one source of logs, metrics and pages.

An observer is called in the event loop, at once, and must neither block nor raise. No event holds a payload or a
secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fencepost.message import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a lane. ``lane`` is its name ("orders.0")."""

    lane: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingBy(Event):
    """The relay does not own the lane and waits. ``owner`` is who has it, None where nobody has."""

    owner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAcquired(Event):
    """A term began. ``early`` is True where the last owner's session was seen to be gone before its lease had ended."""

    owner: str
    token: int
    early: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEnded(Event):
    """A term ended. ``reason`` is "released", "lost" or "trust ended"."""

    owner: str
    token: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver(Event):
    """The broker has fenced every earlier owner. ``receipts`` were read there."""

    token: int
    receipts: int
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptsSettled(Event):
    """Rows that an earlier owner (or an earlier connection) had published were settled. ``rows`` may be 0."""

    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFellBack(Event):
    """The receipts name positions that the database had not handed out: it lost its last transactions. ``position``
    is now reserved.
    """

    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(Event):
    """A batch is at the broker. ``payload_bytes`` counts payloads only; ``oldest_age_s`` is from occurred_at to now."""

    messages: int
    payload_bytes: int
    duration_s: float
    oldest_age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Event):
    """Rows are settled. ``rows`` below ``expected`` means that somebody else had settled or deleted the rest, which is
    published.
    """

    rows: int
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsVanished(Event):
    """Rows that this owner had read are gone, though nobody has published or parked them: their messages are lost.

    Somebody has deleted them, or truncated the table. ``first`` and ``last`` are positions, ``message_ids`` those of
    the first 20.
    """

    rows: int
    first: Position
    last: Position
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSettled(Event):
    """The settle of the last batch failed when the work ended: the next owner does it, by what the broker tells."""

    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged(Event):
    """Settled rows that had been kept for long enough were removed. ``rows`` is at least 1."""

    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPurged(Event):
    """Settled rows could not be removed; it is tried again after ``delay_s``. Nothing else waits for it."""

    cause: str
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFailed(Event):
    """One message could not be published; its key waits and it will be tried again after ``delay_s``."""

    message_id: str
    topic: str
    attempts: int
    delay_s: float
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageParked(Event):
    """One message was set aside after ``attempts``."""

    message_id: str
    topic: str
    attempts: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitOpened(Event):
    """The lane cannot go on and tries again after ``delay_s``. ``cause`` is one line; ``failures`` counts since it
    last went well.
    """

    cause: str
    failures: int
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitClosed(Event):
    """It goes on. ``open_s`` is how long it stood still."""

    open_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHeld(Event):
    """The place that a topic's messages go to is in trouble: they wait for ``delay_s``, other topics go on. ``cause``
    is one line; ``failures`` counts since it last went well.
    """

    topic: str
    cause: str
    failures: int
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResumed(Event):
    """Messages of the topic arrive again. ``held_s`` is how long it waited."""

    topic: str
    held_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer(Event):
    """A server has not answered for ``waited_s``; it is still waited for. ``doing`` says what and where ("publishing to
    the broker").
    """

    doing: str
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerFenced(Event):
    """The broker refused this relay, and ``cause`` says why: another one has taken the lane over, or what the broker
    kept of the take-over is gone.
    """

    token: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayStarted(Event):
    """Everything could be opened. ``delivery`` is the guarantee in force ("exactly-once", "deduplicated",
    "at-least-once").
    """

    owner: str
    delivery: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxLimited(Event):
    """The outbox does not give all that Fencepost's own tables give in the databases that it is tested with: an
    existing table, or a database whose statements are compiled only. ``limits``: a line each.
    """

    limits: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayFailed(Event):
    """A defect: an error that nobody expected, ``error``. The relay goes on with the next campaign."""

    cause: str
    error: BaseException


class Observer(Protocol):
    """Told of every event. Must neither block nor raise."""

    def __call__(self, event: Event, /) -> None: ...


def ignore(event: Event) -> None:
    """The observer that does nothing."""
