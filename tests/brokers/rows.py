"""Messages in their outbox, as the tests of every broker hand them over, and the tenure of whoever does."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fencepost.message import Stored, microseconds
from fencepost.ports import Term

WHEN = datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=UTC)


def row(position: int, topic: str = "orders", key: str | None = "k", **fields: Any) -> Stored:
    """A message in its outbox."""
    values: dict[str, Any] = {
        "position": position,
        "id": str(uuid.uuid4()),
        "topic": topic,
        "key": key,
        "version": None if key is None else position,
        "type": "order.created",
        "payload": b"payload %d" % position,
        "content_type": "application/json",
        "headers": None,
        "occurred_us": microseconds(WHEN),
    }
    return Stored(**(values | fields))


def rows(count: int, start: int = 1, keys: int = 7, **fields: Any) -> list[Stored]:
    """Messages of several keys at consecutive positions."""
    return [row(start + i, key=f"k{i % keys}", **fields) for i in range(count)]


def json_row(position: int, topic: str = "orders", **fields: Any) -> Stored:
    """One whose payload is JSON, without a version; its key is its own unless one is given."""
    given = {"key": f"key-{position}", "version": None, "payload": b'{"n":%d}' % position}
    return row(position, topic, **(given | fields))


def json_rows(count: int, topic: str = "orders", start: int = 1) -> list[Stored]:
    """Some of those, at consecutive positions."""
    return [json_row(position, topic) for position in range(start, start + count)]


def term(token: int = 1, owner: str = "relay-1") -> Term:
    """A tenure."""
    return Term(name="orders.0", owner=owner, token=token)


def ids(batch: Sequence[Stored]) -> list[str]:
    """The ids of a batch."""
    return [m.id for m in batch]


def payloads(batch: Sequence[Stored]) -> list[bytes]:
    """The payloads of a batch."""
    return [m.payload or b"" for m in batch]
