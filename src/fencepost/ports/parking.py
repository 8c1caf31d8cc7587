"""What an operator asks of a database: which messages are parked, and to have them tried again or given up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Protocol, runtime_checkable

from fencepost.errors import FixError
from fencepost.message import Message, Stored

RETRIED = "fencepost-retried"
"""The header that marks a message which was parked and then tried again: how often."""

PARKED_BATCH = 100
"""The most messages of one ``retry`` or ``discard``, and of one ``page`` that has many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedMessage:
    """A message that was set aside, and why. ``message.position`` is where it stood.

    The payload is left out of ``message``: ``payload_bytes`` is its length, None for a tombstone. ``parked_at`` is None
    where nobody keeps it. ``place`` is how the database finds the message again.
    """

    message: Stored
    payload_bytes: int | None
    reason: str
    parked_at: datetime | None
    place: object


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFilter:
    """Which of the parked messages are meant: those to which all that is given applies.

    ``topic`` is a name, or a pattern with ``*``, ``?`` and ``[...]``. ``reason`` is a part of the reason, in capitals
    or not. Parked at ``since`` or later, and earlier than ``before``: aware datetimes.
    """

    ids: Sequence[str] | None = None
    topic: str | None = None
    key: str | None = None
    reason: str | None = None
    since: datetime | None = None
    before: datetime | None = None

    def matches(self, parked: ParkedMessage) -> bool:
        """Whether a message is one of them."""
        m = parked.message
        return (
            (self.ids is None or m.id in self.ids)
            and (self.topic is None or fnmatchcase(m.topic, self.topic))
            and (self.key is None or m.key == self.key)
            and (self.reason is None or self.reason.casefold() in parked.reason.casefold())
            and (self.since is None or (parked.parked_at is not None and parked.parked_at >= self.since))
            and (self.before is None or (parked.parked_at is not None and parked.parked_at < self.before))
        )

    @property
    def everything(self) -> bool:
        """True where nothing is given."""
        return self == ParkedFilter()


class ParkedStore(Protocol):
    """A connection for an operator. After an error it is of no more use.

    Many may work at once, beside relays and applications. A message is parked or in the outbox, at every moment and
    whatever dies: never both, never neither. Of several who retry or discard the same parked message one does it.
    """

    async def page(
        self, which: ParkedFilter, limit: int, after: ParkedMessage | None = None
    ) -> Sequence[ParkedMessage]:
        """Up to ``limit`` of these messages, behind ``after`` where it is given; fewer mean that there are no more.

        The oldest first, by when they were parked or by where they stood, as the database keeps them; those of one key
        in the order in which they were parked.
        """
        ...

    async def count(self, which: ParkedFilter) -> int:
        """How many they are."""
        ...

    async def payload(self, parked: ParkedMessage) -> bytes | None:
        """The payload of a message that was read from here; None for a tombstone. Raises FixError where it has gone."""
        ...

    async def retry(self, rows: Sequence[ParkedMessage], *, keep_versions: bool = False) -> Sequence[str]:
        """Put up to ``PARKED_BATCH`` messages that were read from here to the end of their keys, in this order.

        Returns the ids of those that were still parked. Each is what it was, but that it has not been tried yet, and
        has the header ``RETRIED``. Its version is the next one of its key, so that a reader takes it for news; with
        ``keep_versions`` it is the old one. It is one transaction where the database takes it as one, and several in
        this order otherwise. A sleeping relay is woken. Raises FixError where it cannot be done here.
        """
        ...

    async def discard(self, rows: Sequence[ParkedMessage]) -> Sequence[str]:
        """Remove up to ``PARKED_BATCH`` messages for good. Returns the ids of those that were still parked."""
        ...

    async def close(self) -> None:
        """Give the connection back. Never raises."""
        ...


@runtime_checkable
class Parking(Protocol):
    """A source whose parked messages can be retried and discarded."""

    async def parked(self) -> ParkedStore:
        """A new connection for it. Raises what ``Source.connect`` raises."""
        ...


def marked(headers: Mapping[str, str] | None) -> dict[str, str]:
    """The headers of a parked message, for its next try."""
    given = dict(headers or {})
    tried = given.get(RETRIED, "0")
    given[RETRIED] = str(int(tried) + 1 if tried.isascii() and tried.isdigit() else 1)
    return given


def again(parked: Stored, *, keep_version: bool) -> Message:
    """A parked message for its next try: marked, and without a version unless it keeps its own."""
    m = parked
    return Message(
        id=m.id,
        topic=m.topic,
        payload=m.payload,
        occurred_at=m.occurred_at,
        key=m.key,
        version=m.version if keep_version else None,
        type=m.type,
        content_type=m.content_type,
        headers=marked(m.headers),
    )


Read = Callable[[int, ParkedMessage | None], Awaitable[Sequence[ParkedMessage]]]
"""Reads the next messages, those of the filter and others: at most so many, behind that one. Fewer mean that there are
no more.
"""


async def filtered_page(
    read: Read, which: ParkedFilter, limit: int, after: ParkedMessage | None
) -> Sequence[ParkedMessage]:
    """A page of a database that is asked for a part of the filter at most."""
    found: list[ParkedMessage] = []
    most = limit if which.everything else max(limit, PARKED_BATCH)
    while len(found) < limit:
        rows = await read(most, after)
        found += [one for one in rows if which.matches(one)]
        if len(rows) < most:
            break
        after = rows[-1]
    return found[:limit]


async def filtered_count(read: Read, which: ParkedFilter) -> int:
    """How many there are in such a database."""
    number, after = 0, None
    while page := await filtered_page(read, which, PARKED_BATCH, after):
        number, after = number + len(page), page[-1]
    return number


def gone(place: str, parked: ParkedMessage) -> FixError:
    """What is said of a message that was read, and has been retried or discarded since. ``place`` is the database."""
    return FixError(f"{place}: the message {parked.message.id} is not parked any more", remedy="list them again")
