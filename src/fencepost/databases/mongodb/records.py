"""A message as a document, and back: the same fields in both forms. Those that say nothing are left out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fencepost.message import Message, Position, Stored, microseconds
from fencepost.ports import ParkedMessage

TEXT_CHARACTERS_MAX = 2_000
"""Longer error texts and reasons are cut."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fields_of(message: Message) -> dict[str, Any]:
    """What the application said, without key and version. Times are microseconds since 1970."""
    fields: dict[str, Any] = {
        "id": message.id,
        "topic": message.topic,
        "type": message.type,
        "payload": message.payload,
        "content_type": message.content_type,
        "occurred_us": microseconds(message.occurred_at),
    }
    if message.headers:  # pairs, because a dot in a name would mean something
        fields["headers"] = [[name, value] for name, value in message.headers.items()]
    if message.available_at is not None:
        fields["available_us"] = microseconds(message.available_at)
    return fields


def stored(fields: Mapping[str, Any], position: Position, key: str | None, version: int | None) -> Stored:
    """The message as a relay publishes it."""
    get = fields.get
    headers = get("headers")
    return Stored(
        position,
        fields["id"],
        fields["topic"],
        key,
        version,
        fields["type"],
        get("payload"),
        fields["content_type"],
        {name: value for name, value in headers} if headers else None,  # noqa: C416 - pairs are lists here
        fields["occurred_us"],
        get("attempts", 0),
        "token" in fields,
    )


def fields_of_stored(message: Stored) -> dict[str, Any]:
    """A message that was read, as it is kept among the parked ones."""
    m = message
    fields: dict[str, Any] = {
        "id": m.id,
        "topic": m.topic,
        "type": m.type,
        "payload": m.payload,
        "content_type": m.content_type,
        "occurred_us": m.occurred_us,
    }
    if m.headers:
        fields["headers"] = [[name, value] for name, value in m.headers.items()]
    if m.key is not None:
        fields |= {"key": m.key, "version": m.version}
    return fields


def shortened(text: str) -> str:
    """An error text that can be stored whatever it says."""
    return text[:TEXT_CHARACTERS_MAX].encode(errors="backslashreplace").decode()


def parked(fields: Mapping[str, Any], message: Stored, place: object) -> ParkedMessage:
    """A parked message as an operator sees it: its payload is measured and left out."""
    payload = message.payload
    return ParkedMessage(
        message=message._replace(payload=None, in_doubt=False),
        payload_bytes=None if payload is None else len(payload),
        reason=fields["reason"],
        parked_at=_EPOCH + timedelta(microseconds=fields["parked_us"]),
        place=place,
    )
