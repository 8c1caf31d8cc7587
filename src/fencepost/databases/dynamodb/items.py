"""A message as an item of the table, and back. What a message has by default is left out of its item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.databases.dynamodb.tables import Attributes
from fencepost.errors import MessageRefused
from fencepost.message import Message, Stored, microseconds

ITEM_BYTES = 409_600
"""The largest item that DynamoDB takes."""

TEXT_CHARACTERS_MAX = 2_000
"""Longer error texts and reasons are cut."""

RESERVED_BYTES = 20_000
"""Kept free in each item for what is added later: an error, a reason, attempts."""

TYPE, CONTENT_TYPE = "message", "application/json"


def attributes_of(m: Message, previous: str | None) -> Attributes:
    """A message's own attributes. ``previous`` is the position of the last message of its entity."""
    found: Attributes = {"id": {"S": m.id}, "topic": {"S": m.topic}, "occurred": number(microseconds(m.occurred_at))}
    if m.payload is not None:
        found["payload"] = {"B": m.payload}
    if m.key is not None:
        found["key"] = {"S": m.key}
    if m.version is not None:
        found["version"] = number(m.version)
    if m.type != TYPE:
        found["type"] = {"S": m.type}
    if m.content_type != CONTENT_TYPE:
        found["content_type"] = {"S": m.content_type}
    if m.headers:
        found["headers"] = {"M": {name: {"S": value} for name, value in m.headers.items()}}
    if previous is not None:
        found["previous"] = {"S": previous}
    return found


def stored(item: Mapping[str, Any]) -> Stored:
    """The message of an item."""
    get = item.get
    headers, key, version = get("headers"), get("key"), get("version")
    payload, kind, content_type = get("payload"), get("type"), get("content_type")
    return Stored(
        item["sk"]["S"],
        item["id"]["S"],
        item["topic"]["S"],
        None if key is None else key["S"],
        None if version is None else int(version["N"]),
        TYPE if kind is None else kind["S"],
        None if payload is None else payload["B"],
        CONTENT_TYPE if content_type is None else content_type["S"],
        None if headers is None else {name: value["S"] for name, value in headers["M"].items()},
        int(item["occurred"]["N"]),
        int(item["attempts"]["N"]) if "attempts" in item else 0,
        "doubt" in item,
    )


def number(value: int) -> dict[str, Any]:
    """A number as an attribute."""
    return {"N": str(value)}


def shortened(text: str) -> str:
    """An error text or a reason as it is kept: cut, and without what is no character."""
    return text[:TEXT_CHARACTERS_MAX].encode(errors="replace").decode()


def bytes_of(item: Attributes) -> int:
    """The size of an item as the service counts it, or a little more."""
    return sum(len(name.encode()) + _size(value) for name, value in item.items())


def check_size(item: Attributes, topic: str) -> int:
    """The size of an item in bytes. Raises MessageRefused where it is too large."""
    size, most = bytes_of(item), ITEM_BYTES - RESERVED_BYTES
    if size > most:
        raise MessageRefused(
            f"the message for topic {topic!r} would be an item of {size:,} bytes; DynamoDB takes {ITEM_BYTES:,},"
            f" of which {RESERVED_BYTES:,} are kept for errors and reasons",
            remedy="store the large part elsewhere, for example in S3, and send its address",
        )
    return size


def _size(value: Mapping[str, Any]) -> int:
    ((kind, content),) = value.items()
    if kind == "B":
        return len(content)
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _size(inner) for name, inner in content.items())
    return len(content.encode()) + 1
