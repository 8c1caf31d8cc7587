"""Messages for the rules: ordinary ones, and those with everything that a message may carry."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from fencepost.clock import SYSTEM_CLOCK
from fencepost.message import Message, Stored

TOPIC = "rules"

PAYLOADS = (
    b"",
    b"{}",
    b'{"nothing": null, "empty": [], "large": 1e400, "long": 123456789012345678901234567890.1}',
    b'{"twice": 1, "twice": 2}',
    b'{"zero": "\\u0000"}',
    '{"emoji": "\U0001f600", "accents": "h\u00e9llo"}'.encode(),
    b"\x00\x01\xfe\xff not text \x80",
    bytes(range(256)) * 256,
    b"x" * 4095 + "\U0001f600".encode() + b"x" * 4093,
    b" \r\n\t ",
)
"""Payloads that a careless copy would change: each has to arrive byte for byte."""

KEYS = (
    "order-1",
    "order-10",
    "Order-1",
    "1",
    "\U0001f600\U0001f469\u200d\U0001f680",
    "e\u0301",
    "\u00e9",
    "a'b\"c;--%_\\",
    "a/b.c>*#",
    "k" * 255,
    "\U0001f600" * 255,
)
"""Keys that a careless comparison would take for each other, or could not store."""

ODD_KEYS = ("order-1 ", " order-1", "order-1\n", "line\nfeed\ttab", "\x7f\x1b[2J", "\u2028\u00a0\ufeff")
"""Keys that ``fencepost.message.check`` refuses. One that stands in an outbox all the same, a broker may refuse too."""

HEADERS = {
    "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "Mixed-Case": "Kept",
    "accents": "h\u00e9llo w\u00f6rld \u20ac",
    "emoji": "\U0001f600",
    "empty": "",
    "quoted": "a \"b\" 'c' \\d, {e: f}",
    "long": "v" * 2000,
}
"""Application headers that a careless encoding would change."""

ERRORS = ("", "zero \x00 byte", "lone \ud800 surrogate", "\U0001f600 " * 1000, "line\r\nfeed", "x" * 1_000_000)
"""Error texts as servers give them. They have to be stored, shortened or cleaned, without failing."""


def message(key: str | None = None, payload: bytes | None = b"{}", *, topic: str = TOPIC) -> Message:
    """An ordinary message with an id of its own."""
    return Message(id=SYSTEM_CLOCK.new_id(), topic=topic, key=key, payload=payload, occurred_at=SYSTEM_CLOCK.now())


def rich(key: str | None = None) -> Message:
    """A message in which nothing has its default."""
    return replace(
        message(key, PAYLOADS[2]),
        type="order.placed",
        content_type="application/vnd.order+json; charset=utf-8",
        headers=HEADERS,
        occurred_at=datetime(2026, 3, 29, 2, 30, 0, 123_457, timezone(timedelta(hours=2))),
    )


def delayed(seconds: float, key: str | None = None) -> Message:
    """A message that may be published in ``seconds`` from now."""
    return replace(message(key), available_at=SYSTEM_CLOCK.now() + timedelta(seconds=seconds))


def stored(position: int, key: str | None = None, version: int | None = None, *, like: Message | None = None) -> Stored:
    """A message as a source reads it, for brokers."""
    return Stored.of(position, like or message(key))._replace(version=version)
