"""From a message to what is given to the client library: topic, properties, body. What cannot go is found before it
is sent.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple
from urllib.parse import quote

from fencepost.brokers.mqtt.settings import Settings
from fencepost.brokers.mqtt.texts import text_fault, topic_fault
from fencepost.envelope import Envelope
from fencepost.errors import ParkError
from fencepost.handoffs import not_carried
from fencepost.message import Stored
from fencepost.routes import filled

PREFIX = ""
"""What stands before the names of CloudEvents' attributes: nothing, as its MQTT binding says."""
TOMBSTONE = ("fencepost-tombstone", "true")
"""The user property of a message whose payload is None. Its body is empty, as that of a message with an empty
payload.
"""

_CONTENT_TYPE = "content-type"
_CONTENT_TYPE_PROPERTY, _USER_PROPERTY = b"\x03", b"\x26"
_TOPICS_KEPT_MAX = 10_000
_NOT_IN_A_LEVEL = re.compile(r"[%+#/\x00-\x1f\x7f-\x9f]")


class Encoded(NamedTuple):
    """One message, ready to be sent. ``properties`` are bytes as they go on the wire, their length before them."""

    topic: str
    properties: bytes
    body: bytes
    size: int
    """Of the whole packet, in bytes."""


class Encoder:
    """Encodes messages. ``bytes_max`` is the limit of a packet: the server's, or that of the settings."""

    def __init__(self, envelope: Envelope, settings: Settings, bytes_max: int) -> None:
        self._envelope = envelope
        self._template, self._separator = settings.topic, settings.separator
        self._of_topic_alone = settings.topic_is_place
        self._bytes_max = bytes_max
        self._topics: dict[str, str] = {}

    def one(self, message: Stored) -> Encoded:
        """One message. Raises ParkError."""
        topic, body = self._topic(message), self._envelope.body(message)
        properties = self._properties(message, is_tombstone=body is None)
        data = body or b""
        length = 2 + len(topic.encode()) + 2 + len(properties) + len(data)
        size = 1 + len(_varint(length)) + length
        if size > self._bytes_max:
            raise ParkError(
                f"message {message.id} makes a packet of {size:,} bytes, the limit is {self._bytes_max:,}",
                remedy="store the large part elsewhere, or raise the server's limit (mosquitto: max_packet_size)",
                at_once=True,
            )
        return Encoded(topic, properties, data, size)

    def _topic(self, message: Stored) -> str:
        if not self._of_topic_alone:
            return self._filled(message)
        found = self._topics.get(message.topic)
        if found is None:
            if len(self._topics) >= _TOPICS_KEPT_MAX:  # topics taken from data must not fill the memory
                self._topics.clear()
            self._topics[message.topic] = found = self._filled(message)
        return found

    def _filled(self, message: Stored) -> str:
        name = message.topic
        if self._separator and "/" in name:
            why = f'has a / in it, and with separator = "{self._separator}" another topic would have the same levels'
            raise _no_topic(message, name, why)
        places = {"topic": name.replace(self._separator, "/") if self._separator else name}
        if not self._of_topic_alone:
            places |= {"key": _level(message.key or ""), "type": _level(message.type)}
        topic = filled(self._template, places)
        if fault := topic_fault(topic):
            raise _no_topic(message, topic, fault)
        return topic

    def _properties(self, message: Stored, *, is_tombstone: bool) -> bytes:
        """Where an attribute and a header of the application's have one name, the attribute is sent."""
        headers = dict(reversed(self._envelope.headers(message)))
        if text_fault("".join([*headers, *headers.values()])):  # all at once, since nearly all have none
            _check(message, headers)
        content_type = headers.pop(_CONTENT_TYPE, "")
        parts = [_CONTENT_TYPE_PROPERTY, _packed(content_type)] if content_type else []
        for name in reversed(headers):
            parts += (_USER_PROPERTY, _packed(name), _packed(headers[name]))
        if is_tombstone:
            parts += (_USER_PROPERTY, *map(_packed, TOMBSTONE))
        data = b"".join(parts)
        return _varint(len(data)) + data


def _level(text: str) -> str:
    """A key or a type as one level of a topic: what would end the level, or stand for others, is written as %2F."""
    return _NOT_IN_A_LEVEL.sub(lambda found: quote(found[0], safe=""), text)


def _check(message: Stored, headers: dict[str, str]) -> None:
    for name, value in headers.items():
        for what, text in (("the name of a header", name), (f"its {name}", value)):
            if fault := text_fault(text):
                raise _not_carried(message, f"{what} ({text[:60]!r}) {fault}")


def _packed(text: str) -> bytes:
    """A text with its length before it."""
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _varint(number: int) -> bytes:
    """A whole number, seven bits in each byte, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _not_carried(message: Stored, why: str) -> ParkError:
    return not_carried("MQTT", message, why)


def _no_topic(message: Stored, topic: str, why: str) -> ParkError:
    return ParkError(
        f"message {message.id} cannot go to the MQTT topic {topic[:300]!r}: it {why}",
        remedy="rename the topic, or change the setting topic",
        at_once=True,
    )
