"""What an application hands to ``add``, and the checked message that it becomes: the same for every database."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypedDict

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.errors import MessageRefused
from fencepost.message import Message, check


@dataclass(frozen=True, slots=True)
class Encoder:
    """How a payload that is neither bytes nor None becomes bytes, and what the result is called."""

    encode: Callable[[Any], bytes]
    content_type: str = "application/json"


_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _encode_json(payload: object) -> bytes:
    return _json.encode(payload).encode()


JSON = Encoder(_encode_json)
"""Compact JSON in UTF-8. NaN and infinity are refused: they are not JSON."""


class NewMessage(NamedTuple):
    """A message to be added: the arguments of ``add``, for ``add_all``.

    ``payload``: bytes are taken as they are (content type application/octet-stream unless you say another), None is
    a tombstone, anything else is encoded as JSON, also a str. ``key`` is the entity's id: messages of one topic and
    key keep their order. ``version`` is the entity's own version where the application has one (its optimistic lock);
    leave it out to let the outbox draw it. ``occurred_at`` is now unless given; before ``available_at`` the message is
    not published. Both are aware datetimes. ``id`` is a UUID as text; a new UUIDv7 unless given.
    """

    topic: str
    payload: object
    key: str | None = None
    type: str = "message"
    headers: Mapping[str, str] | None = None
    version: int | None = None
    content_type: str | None = None
    id: str | None = None
    occurred_at: datetime | None = None
    available_at: datetime | None = None


class Attributes(TypedDict, total=False):
    """What every ``add`` takes besides topic and payload, by name; ``NewMessage`` says what each of them is."""

    key: str | None
    type: str
    headers: Mapping[str, str] | None
    version: int | None
    content_type: str | None
    id: str | None
    occurred_at: datetime | None
    available_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageMaker:
    """Makes checked messages. ``max_bytes`` is the largest payload plus headers, None for any size."""

    max_bytes: int | None = 950_000
    encoder: Encoder = JSON
    clock: Clock = SYSTEM_CLOCK

    def make(self, new: NewMessage) -> Message:
        """The checked message; raises MessageRefused. What the caller may change later is copied: a session writes
        at its next flush.
        """
        now = self.clock.now()
        payload, content_type = self._encoded(new)
        due = _utc("available_at", new.available_at)
        message = Message(
            id=self.clock.new_id() if new.id is None else new.id,
            topic=new.topic,
            payload=payload,
            occurred_at=_utc("occurred_at", new.occurred_at) or now,
            key=new.key,
            version=new.version,
            type=new.type,
            content_type=content_type if new.content_type is None else new.content_type,
            headers=_copied(new.headers),
            available_at=due,
        )
        check(message, max_bytes=self.max_bytes)
        return message if due is None or due > now else replace(message, available_at=None)

    def _encoded(self, new: NewMessage) -> tuple[bytes | None, str]:
        payload = new.payload
        if payload is None:
            return None, self.encoder.content_type
        if isinstance(payload, bytes | bytearray | memoryview):
            return bytes(payload), "application/octet-stream"
        try:
            return self.encoder.encode(payload), self.encoder.content_type
        except (TypeError, ValueError, RecursionError) as error:
            raise MessageRefused(
                f"the payload for topic {new.topic!r} cannot be encoded as {self.encoder.content_type} ({error})",
                remedy="pass bytes, or values that the encoder knows, or an Encoder of your own",
            ) from error


def _utc(name: str, moment: datetime | None) -> datetime | None:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        return moment  # nothing, or what the check refuses
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise MessageRefused(
            f"{name} {moment!r} is outside the years 1 to 9999 in UTC", remedy="pass another time"
        ) from error


def _copied(headers: Mapping[str, str] | None) -> dict[str, str]:
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise MessageRefused(
            f"headers are {name_of_class(type(headers))}",
            remedy="pass a mapping from names to texts; a name occurs once",
        )
    return dict(headers)


def name_of_class(kind: type) -> str:
    """A class as error texts name it."""
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
