"""Parked messages as a person reads them: nothing in them can write on a terminal, and no secret is repeated."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.cli.failures import MANNER
from fencepost.ports import ParkedMessage

_REASON_CHARACTERS = 200


def described(parked: ParkedMessage) -> dict[str, Any]:
    """What is known of a message but for its payload and headers."""
    m = parked.message
    return {
        "id": m.id,
        "topic": m.topic,
        "key": m.key,
        "version": m.version,
        "type": m.type,
        "content_type": m.content_type,
        "payload_bytes": parked.payload_bytes,
        "occurred_at": m.occurred_at.isoformat(),
        "parked_at": None if parked.parked_at is None else parked.parked_at.isoformat(),
        "attempts": m.attempts,
        "position": m.position,
        "reason": MANNER.scrub(parked.reason),
    }


def with_content(payload: bytes | None) -> dict[str, Any]:
    """A payload as text, or as base64 where it is none."""
    text = _text(payload)
    if payload is None or text is not None:
        return {"payload": text}
    return {"payload_base64": base64.b64encode(payload).decode()}


def _text(payload: bytes | None) -> str | None:
    """None where it is none, or has something in it that a terminal would obey."""
    try:
        text = (payload or b"").decode()
    except UnicodeDecodeError:
        return None
    harmless = all(character.isprintable() or character in "\t\r\n" for character in text)
    return text if payload is not None and harmless else None


def line_of(parked: ParkedMessage) -> str:
    """A message in one line."""
    m = parked.message
    when = "-" if parked.parked_at is None else f"{parked.parked_at:%Y-%m-%d %H:%M:%S}"
    key = "" if m.key is None else f"  key {plain(m.key)}"
    version = "" if m.version is None else f"  version {m.version}"
    reason = plain(MANNER.scrub(parked.reason))
    cut = reason if len(reason) <= _REASON_CHARACTERS else f"{reason[:_REASON_CHARACTERS]}..."
    return f"{plain(m.id)}  {when}  {plain(m.topic)}{key}{version}  attempts {m.attempts}  {cut}"


def lines_of(shown: Mapping[str, Any]) -> Iterator[str]:
    """What is shown of a message, one line for each part; the payload at the end, as it is."""
    for name, value in shown.items():
        if name == "headers":
            yield from (f"header {plain(header)}: {plain(text)}" for header, text in value.items())
        elif name == "payload_bytes":
            yield f"payload: {'none (a tombstone)' if value is None else f'{value:,} bytes'}"
        elif name in {"payload", "payload_base64"}:
            yield "-" if value is None else str(value)
        elif value is not None:
            yield f"{name.replace('_', ' ')}: {plain(str(value))}"


def plain(text: str) -> str:
    """In one line, without what a terminal would obey."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split()))
