"""From a message to a row of the inbox table. What cannot be one is found before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from fencepost.envelope import Envelope
from fencepost.errors import ParkError
from fencepost.handoffs import encoded
from fencepost.message import KEY_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX, TYPE_CHARACTERS_MAX, Stored
from fencepost.ports import Failure, Lane
from fencepost.sql.messages import ID_CHARACTERS_MAX
from fencepost.sql.tables import MARIADB

PREFIX = "ce_"
ROOM = 4096
"""Bytes of a row besides its texts and its payload, and of the statement around it, at most."""

_IN_COLUMNS = frozenset(
    f"{PREFIX}{name}"
    for name in ("specversion", "id", "source", "type", "time", "subject", "entityversion", "possiblerepeat")
)
"""Attributes that have a column of their own."""

_LONGEST = (
    ("id", ID_CHARACTERS_MAX),
    ("topic", TOPIC_CHARACTERS_MAX),
    ("type", TYPE_CHARACTERS_MAX),
    ("content type", TYPE_CHARACTERS_MAX),
    ("key", KEY_CHARACTERS_MAX),
)
"""The texts of a row, and how many characters each may have; a message without a key has one less."""

_CONTENT_TYPE = "content-type"
_WITHOUT_NUL = ("postgresql", "cockroachdb")
_ESCAPED = b"\0\n\r\x1a\"'\\"
"""What the client library of MariaDB writes as two bytes."""

_INTEGERS = range(-(2**63), 2**63)
_SPLIT = "store the large part elsewhere"

Row = Mapping[str, Any]


class Rows:
    """Makes rows for one database. ``bytes_max`` is what a message may have; it is set when the server was asked."""

    def __init__(self, envelope: Envelope, source: str, dialect: str, place: str) -> None:
        self._envelope, self._source, self._dialect, self._place = envelope, source, dialect, place
        self.bytes_max = 0

    def made(self, batch: Sequence[Stored], lane: Lane, now: datetime) -> tuple[list[Row], list[Failure]]:
        """The rows of what can go, and the others with the reason."""
        same = {"source": self._source, "lane": lane.name, "delivered_at": now}
        return encoded(batch, lambda message: {**self.one(message), **same})

    def one(self, message: Stored) -> dict[str, Any]:
        """One row, without what all rows of a batch have in common. Raises ParkError."""
        occurred_at = _date(message)
        content_type, headers = self._headers(message)
        payload = self._envelope.body(message)
        key, version = message.key, message.version
        texts = (message.id, message.topic, message.type, content_type, *(() if key is None else (key,)))
        if fault := next(_unfit(texts, version), None) or self._fault(texts, payload, headers):
            what, remedy = fault
            text = f"{self._place} cannot hold message {message.id[:ID_CHARACTERS_MAX]!r}: {what}"
            raise ParkError(text, remedy=remedy, at_once=True)
        return {
            "id": message.id,
            "topic": message.topic,
            "key": key,
            "version": version,
            "type": message.type,
            "payload": payload,
            "content_type": content_type,
            "headers": headers,
            "occurred_at": occurred_at,
            "possible_repeat": message.in_doubt,
        }

    def _headers(self, message: Stored) -> tuple[str, str | None]:
        """The content type, and what else has no column, as JSON."""
        content_type, others = message.content_type, {}
        for name, value in self._envelope.headers(message):
            if name == _CONTENT_TYPE:
                content_type = value
            elif name not in _IN_COLUMNS:
                others[name] = value
        return content_type, json.dumps(others) if others else None

    def _fault(self, texts: tuple[str, ...], payload: bytes | None, headers: str | None) -> tuple[str, str] | None:
        whole = "".join(texts)
        try:
            size = len(payload or b"") + len(whole.encode()) + len(headers or "") + ROOM
        except UnicodeEncodeError:
            return "a text of it cannot be written as UTF-8", "change the message"
        if "\0" in whole and self._dialect in _WITHOUT_NUL:
            return "a text of it has U+0000, which the database refuses", "change the message"
        if self._dialect == "oracle" and (payload == b"" or "" in texts):
            return "Oracle keeps an empty value as none at all, which means something else", "add what is not empty"
        if self._dialect in MARIADB and 2 * size > self.bytes_max:
            size += _escapes(payload or b"") + _escapes(f"{whole}{headers or ''}".encode())
        return None if size <= self.bytes_max else self._too_large(size)

    def _too_large(self, size: int) -> tuple[str, str]:
        what = f"it takes {size:,} bytes there, of which {self.bytes_max:,} are possible"
        return what, f"{_SPLIT}, or raise max_allowed_packet of the server" if self._dialect in MARIADB else _SPLIT


def _escapes(data: bytes) -> int:
    return sum(data.count(byte) for byte in _ESCAPED)


def _unfit(texts: tuple[str, ...], version: int | None) -> Iterator[tuple[str, str]]:
    for (name, most), text in zip(_LONGEST, texts, strict=False):
        if len(text) > most:
            yield f"its {name} has {len(text):,} characters, {most} are possible", f"shorten the {name}"
    if version is not None and version not in _INTEGERS:
        yield f"its version {version} has more than 64 bits", "count on from a smaller number"


def _date(message: Stored) -> datetime:
    try:
        return message.occurred_at
    except OverflowError as error:
        what = f"message {message.id} occurred {message.occurred_us} us after 1970, which is no date"
        raise ParkError(what, remedy="correct its time", at_once=True) from error
