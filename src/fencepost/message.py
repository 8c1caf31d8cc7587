"""The message that an application adds, and the same message as it waits in an outbox."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from fencepost.errors import MessageRefused

SLOTS = 256
"""The number of slots. A slot belongs to exactly one lane at a time."""

TOPIC_CHARACTERS_MAX = 249
KEY_CHARACTERS_MAX = 255
TYPE_CHARACTERS_MAX = 255

Position = int | str
"""Where a message stands in its outbox. Positions of one outbox are of one type and sort in outbox order."""

Entity = tuple[str, str | None, str]
"""What is kept in order: topic and key; a message without a key is an entity of its own."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TOPIC = re.compile(r"[A-Za-z0-9._/-]{1,249}\Z")
_HEADER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}\Z")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RESERVED = re.compile(r"(?i)(ce[_-]|nats-|content-type\Z|fencepost)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What an application adds.

    ``payload`` is bytes, or None for a tombstone ("this key is gone"). ``version`` is None until it is drawn (or for a
    message without a key). ``occurred_at`` and ``available_at`` are aware datetimes; before ``available_at`` the
    message is not published.
    """

    id: str
    topic: str
    payload: bytes | None
    occurred_at: datetime
    key: str | None = None
    version: int | None = None
    type: str = "message"
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    available_at: datetime | None = None


class Stored(NamedTuple):
    """A message in its outbox: what a source reads and a broker publishes. A tuple, because millions are made.

    ``headers`` is None where there are none. ``attempts`` counts failed tries of the whole system. ``in_doubt`` is
    True where an earlier try may have arrived (plain brokers): the next one is marked as a possible repeat.
    ``occurred_us`` counts microseconds since 1970 in UTC: most readers never need a datetime of it.
    """

    position: Position
    id: str
    topic: str
    key: str | None
    version: int | None
    type: str
    payload: bytes | None
    content_type: str
    headers: Mapping[str, str] | None
    occurred_us: int
    attempts: int = 0
    in_doubt: bool = False

    @classmethod
    def of(cls, position: Position, message: Message) -> Stored:
        """The message as it waits at ``position``, not tried yet."""
        m = message
        headers, moment_us = dict(m.headers) or None, microseconds(m.occurred_at)
        return cls(position, m.id, m.topic, m.key, m.version, m.type, m.payload, m.content_type, headers, moment_us)

    @property
    def occurred_at(self) -> datetime:
        """When it was added, in UTC."""
        return _EPOCH + self.occurred_us * _MICROSECOND


def entity_of(message: Stored) -> Entity:
    """The scope of order that a message belongs to."""
    return (message.topic, message.key, "") if message.key is not None else (message.topic, None, message.id)


def microseconds(moment: datetime) -> int:
    """An aware datetime as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def slot_of(key: str | None, message_id: str) -> int:
    """The slot (0 to 255) of a message: from its key, or from its id where it has no key."""
    return zlib.crc32((message_id if key is None else key).encode()) % SLOTS


def is_topic(text: str) -> bool:
    """Whether brokers could have a topic of this name."""
    return _TOPIC.match(text) is not None


def check(message: Message, *, max_bytes: int | None) -> None:
    """Raise MessageRefused where the message could not be published by any broker, or not without being changed on
    the way.

    ``max_bytes`` is the largest payload plus headers that is accepted, in bytes; None accepts any size.
    """
    _check_kinds(message)
    _check_names(message)
    _check_headers(message.headers)
    _check_times(message)
    _check_version(message)
    size = len(message.payload or b"") + sum(len(n) + len(v.encode()) for n, v in message.headers.items())
    if max_bytes is not None and size > max_bytes:
        raise MessageRefused(
            f"the message for topic {message.topic!r} has {size:,} bytes, the limit is {max_bytes:,}",
            remedy="store the large part elsewhere and send its address, or raise max_bytes and the broker's limit",
        )


def _check_kinds(message: Message) -> None:
    """What a program without type hints passes most easily: a number or a UUID as a key, a str as the payload."""
    key = "" if message.key is None else message.key
    texts: tuple[object, ...] = (message.id, message.topic, message.type, message.content_type, key)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            name = ("id", "topic", "type", "content_type", "key")[place]
            raise MessageRefused(f"{name} is not text but {text!r:.300}", remedy="pass text, for example str(...)")
    payload: object = message.payload
    if payload is not None and not isinstance(payload, bytes):
        raise MessageRefused(f"the payload is not bytes but {type(payload).__name__}", remedy="encode it first")


def _check_names(message: Message) -> None:
    if not _UUID.match(message.id):
        raise MessageRefused(f"id {message.id[:300]!r} is not a UUID", remedy="pass str(uuid), lower case with hyphens")
    if not is_topic(message.topic):
        raise MessageRefused(
            f"topic {message.topic[:300]!r} is not usable",
            remedy=f"1 to {TOPIC_CHARACTERS_MAX} characters of A-Z a-z 0-9 . _ - / are",
        )
    key = message.key
    if key is not None and not _is_plain(key, KEY_CHARACTERS_MAX):
        raise MessageRefused(
            f"key {key[:300]!r} on topic {message.topic!r} is not usable",
            remedy=f"1 to {KEY_CHARACTERS_MAX} characters without control characters or outer blanks are; "
            "None means no key",
        )
    for name, text in (("type", message.type), ("content_type", message.content_type)):
        if not _is_plain(text, TYPE_CHARACTERS_MAX):
            raise MessageRefused(
                f"{name} {text[:300]!r} on topic {message.topic!r} is not usable",
                remedy=f"1 to {TYPE_CHARACTERS_MAX} characters without control characters or outer blanks are",
            )


def _is_plain(text: str, characters_max: int) -> bool:
    """Whether a text arrives as it is wherever attributes travel as headers."""
    return 0 < len(text) <= characters_max and _keeps_its_form(text)


def _keeps_its_form(text: str) -> bool:
    return not _CONTROL.search(text) and text == text.strip() and _encodable(text)


def _check_headers(headers: Mapping[Any, object]) -> None:
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.match(name) or _RESERVED.match(name):
            raise MessageRefused(
                f"header name {name!r:.300} is not usable",
                remedy="use A-Z a-z 0-9 . _ -; content-type and names from ce_, ce-, nats- or fencepost on are taken",
            )
        if not isinstance(value, str) or not _keeps_its_form(value):
            raise MessageRefused(
                f"the value of header {name!r} is not usable",
                remedy="it must be text without control characters or outer blanks; put anything else into the payload",
            )


def _check_times(message: Message) -> None:
    times: tuple[tuple[str, object], ...] = (
        ("occurred_at", message.occurred_at),
        ("available_at", message.available_at),
    )
    for name, moment in times:
        if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
            raise MessageRefused(
                f"{name} {moment!r:.300} has no time zone",
                remedy="pass an aware datetime, for example datetime.now(UTC)",
            )


def _check_version(message: Message) -> None:
    version: object = message.version
    if version is None:
        return
    if message.key is None or not isinstance(version, int) or isinstance(version, bool) or not 0 < version < 2**63:
        raise MessageRefused(
            f"version {version!r:.300} on topic {message.topic!r}",
            remedy="a version is a positive whole number below 2**63 and needs a key",
        )


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
