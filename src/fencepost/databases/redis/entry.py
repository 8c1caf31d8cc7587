"""How a message stands in a stream, and how it is read from there.

An entry's id is POSITION-DIGEST. Positions count from 1, in the order in which transactions are executed; the digest
is of the message's id (52 bits of SHA-1). So whoever names an entry names position *and* message, and XDEL of what was
settled cannot hit another message that was given the same position after a database fell back.

Fields: ``version`` (of messages with a key), ``message`` (all attributes as JSON), ``payload`` (not of a tombstone).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from fencepost.message import Message, Position, Stored, microseconds, slot_of

Entry = Sequence[Any]
"""As the server sends it: the id, then the fields, names and values in turn."""

_DIGEST_DIGITS = 13  # of base 16: what a Lua number holds exactly
_PAD = 20
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_new = tuple.__new__


def digest(message_id: str) -> int:
    """The number of 52 bits that stands for a message id: the first 13 digits of ``redis.sha1hex(id)``."""
    return int(hashlib.sha1(message_id.encode(), usedforsecurity=False).hexdigest()[:_DIGEST_DIGITS], 16)


def entry_id(position: Position, message_id: str) -> str:
    """The id of a message's entry."""
    return f"{position}-{digest(message_id)}"


def padded(position: int) -> str:
    """A position as text that sorts like the number."""
    return f"{position:0{_PAD}d}"


def argument(message: Message, *, counted: bool) -> bytes:
    """What ``fencepost_add`` takes: a line of its own, a line of JSON, and the payload (nothing where it is None).

    ``counted``: versions count per entity; otherwise they are the positions.
    """
    due = "-" if message.available_at is None else str(microseconds(message.available_at))
    version = str(message.version) if message.version is not None else "+" if counted else "="
    entity = "" if message.key is None else f" {message.topic} {message.key}"
    head = f"{digest(message.id)} {due} {version}{entity}\n{_encode(_attributes(message))}"
    return head.encode() if message.payload is None else head.encode() + b"\n" + message.payload


def line_of(message: Message) -> bytes:
    """A message's attributes in one line, as they stand in its entry."""
    return _encode(_attributes(message)).encode()


def _attributes(message: Message) -> dict[str, object]:
    found: dict[str, object] = {"id": message.id, "topic": message.topic}
    if message.key is not None:
        found["key"] = message.key
    found["type"] = message.type
    found["content_type"] = message.content_type
    if message.headers:
        found["headers"] = dict(message.headers)
    found["occurred_us"] = microseconds(message.occurred_at)
    return found


def position_of(raw_id: bytes) -> int:
    """The position in an entry's id."""
    return int(raw_id.partition(b"-")[0])


def stored(entry: Entry) -> Stored:
    """The message of an entry. Raises ValueError where it is none."""
    return all_stored([entry])[0]


def all_stored(entries: Sequence[Entry]) -> list[Stored]:
    """The messages of entries. Raises ValueError where one of them is none.

    Their JSON is read as one text: reading each by itself takes three times as long.
    """
    try:
        given = [fields[1::2] if fields[0] == b"version" else (None, *fields[1::2]) for _, fields in entries]
        attributes = json.loads(b"[" + b",".join([each[1] for each in given]) + b"]")
        return [_stored(raw_id, values, m) for (raw_id, _), values, m in zip(entries, given, attributes, strict=True)]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{_culprit(entries)}: {error!r:.200}") from error


def _stored(raw_id: bytes, given: Sequence[bytes | None], m: dict[str, Any]) -> Stored:
    version, payload = given[0], given[2] if len(given) > 2 else None
    return _new(
        Stored,
        (
            int(raw_id.partition(b"-")[0]),
            m["id"],
            m["topic"],
            m.get("key"),
            None if version is None else int(version),
            m["type"],
            payload,
            m["content_type"],
            m.get("headers"),
            m["occurred_us"],
            0,
            False,
        ),
    )


def _culprit(entries: Sequence[Entry]) -> str:
    """Which of the entries is no message."""
    for each in entries if len(entries) > 1 else ():
        try:
            stored(each)
        except ValueError as error:
            return str(error).partition(": ")[0]
    return f"the entry {entries[0][0].decode()}"


def slot(entry: Entry) -> int:
    """The slot of the message of an entry. Raises ValueError where it is none."""
    fields = entry[1]
    try:
        m = json.loads(fields[3] if fields[0] == b"version" else fields[1])
        return slot_of(m.get("key"), m["id"])
    except (IndexError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the entry {entry[0].decode()}: {error!r:.200}") from error
