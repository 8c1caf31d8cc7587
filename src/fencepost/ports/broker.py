"""What the core asks of a broker: a lane is taken over, and published on, as long as nobody else takes it over."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.envelope import Envelope, Format, envelope
from fencepost.errors import FencepostError, ParkError
from fencepost.message import Stored
from fencepost.ports.tenure import Lane, Term
from fencepost.receipt import Receipts


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
    """One message that the broker does not take, and why.

    A ParkError is about the message: after its attempts it is parked. Any other error is about the place that it goes
    to (nothing is bound there, it is full): the message is never parked for it, its row and its key wait.
    """

    message: Stored
    error: FencepostError
    whole_topic: bool = False
    """The same goes for every message of the topic: all of it waits, and no attempt is spent."""
    pause_s: float = 0.0
    """How long the topic is to be left alone at least; what its place asks for."""

    @property
    def at_once(self) -> bool:
        """True where it is parked without further attempts."""
        return isinstance(self.error, ParkError) and self.error.at_once


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch: ``published`` in the order of the batch, ``failed`` alone. What is in neither was not
    sent.
    """

    published: Sequence[Stored]
    failed: Sequence[Failure] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """Where a broker is. ``source`` is the CloudEvents source. ``settings`` are the plug-in's own; it refuses unknown
    ones.

    ``create`` allows the plug-in to create the topics or streams that it needs. ``form`` is the wire format, None the
    plug-in's usual one; ``header_map`` gives headers other names. ``envelope`` makes something of both.
    ``publish_timeout_s``: a broker without a fence has so long for a publish, and is cut off then; None where nobody
    says.
    """

    url: str
    source: str
    create: bool = True
    timeout_s: float = 30.0
    settings: Mapping[str, object] = field(default_factory=dict)
    clock: Clock = SYSTEM_CLOCK
    form: Format | None = None
    header_map: Mapping[str, str] = field(default_factory=dict)
    publish_timeout_s: float | None = None

    def envelope(self, prefix: str, usual: Format = Format.CLOUDEVENTS_BINARY) -> Envelope:
        """What makes headers and bodies. ``prefix`` stands before the names of CloudEvents' attributes in headers."""
        return envelope(self.form or usual, self.source, prefix, self.header_map)


class Handoff(Protocol):
    """The right to publish on one lane, from a take-over to its first trouble.

    After any error from ``publish`` other than those inside an Outcome the handoff is void: the owner takes over
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
