"""From a message to one entry of a request: a text and at most ten attributes. What cannot go is found before.

Bodies are texts, and some characters would be replaced without a word; so a body that cannot be such a text goes as
base64. What of the headers cannot be an attribute goes into one attribute together, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from typing import NamedTuple

from fencepost.aws.publishing.settings import Settings
from fencepost.envelope import Envelope, Headers
from fencepost.errors import ParkError
from fencepost.message import Stored

PREFIX = "ce-"
ATTRIBUTES_MAX = 10
"""SNS takes more, but would not hand them on to a queue."""

TOMBSTONE = "fencepost-tombstone"
"""The attribute of a message whose payload is None; its body is ``null``."""
BODY = "fencepost-body"
"""The attribute of a body that is no text: ``base64``, or ``empty`` (there are no empty bodies)."""
HEADERS = "fencepost-headers"
"""The attribute with all headers that cannot be attributes, a JSON object."""
TOPIC = "fencepost-topic"
"""The attribute with the topic, where that does not decide the name of the place."""

_ODD = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"(?i)(?!aws\.|amazon\.|fencepost)[a-z0-9_-]+(\.[a-z0-9_-]+)*\Z")
_NAME_CHARACTERS_MAX = 256
_ID = re.compile(r"[!-~]{1,128}\Z")
_TYPE_BYTES = len("String")


class Entry(NamedTuple):
    """One message. ``group`` and ``id`` are those of FIFO. ``size`` is in bytes, as the services count them."""

    body: str
    attributes: dict[str, str]
    group: str
    id: str
    size: int


class Encoder:
    """Encodes messages for one service."""

    def __init__(self, envelope: Envelope, settings: Settings) -> None:
        self._envelope = envelope
        self._with_topic = not settings.by_topic
        self.bytes_max = settings.message_bytes_max

    def entry(self, message: Stored) -> Entry:
        """One message. Raises ParkError."""
        body, own = _text(self._envelope.body(message))
        if self._with_topic:
            own.append((TOPIC, _checked(message.topic)))
        attributes = _attributes(self._envelope.headers(message), own)
        size = len(body.encode()) + sum(len(n) + _TYPE_BYTES + len(v.encode()) for n, v in attributes.items())
        if size > self.bytes_max:
            raise ParkError(
                f"message {message.id} has {size:,} bytes; the limit is {self.bytes_max:,}",
                remedy="store the large part elsewhere, or raise message_bytes_max where the server takes more",
                at_once=True,
            )
        group = message.id if message.key is None else message.key
        return Entry(body, attributes, _id(group), _id(message.id), size)


def _text(body: bytes | None) -> tuple[str, Headers]:
    """A body as text, and the attribute that says how."""
    if body is None:
        return "null", [(TOMBSTONE, "true")]
    if not body:
        return "-", [(BODY, "empty")]
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = ""
    if text and not _ODD.search(text):
        return text, []
    return b64encode(body).decode(), [(BODY, "base64")]


def _checked(topic: str) -> str:
    if _ODD.search(topic) or not topic:
        what = f"topic {topic[:300]!r} cannot be in an attribute"
        raise ParkError(what, remedy="send it to another topic", at_once=True)
    return topic


def _attributes(headers: Headers, own: Headers) -> dict[str, str]:
    """The headers as attributes; those that cannot be, or are too many, together in one."""
    room = ATTRIBUTES_MAX - len(own)
    fit = [(name, value) for name, value in headers if _is_attribute(name, value)]
    if len(fit) < len(headers) or len(fit) > room:
        fit = fit[: room - 1]
        names = {name for name, _ in fit}
        rest = {name: value for name, value in headers if name not in names}
        own = [*own, (HEADERS, json.dumps(rest, separators=(",", ":")))]
    return dict([*fit, *own])


def _is_attribute(name: str, value: str) -> bool:
    return bool(value and _NAME.match(name)) and len(name) <= _NAME_CHARACTERS_MAX and not _ODD.search(value)


def _id(text: str) -> str:
    """The text, or what stands for it where it cannot be the id of a group or of a message."""
    if _ID.match(text):
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
