"""From a message to what goes on the wire: subject, headers, payload. What cannot go is found before any is sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from fencepost.brokers.nats.subjects import subject_fault
from fencepost.brokers.nats.wire import HEADER_LINE
from fencepost.envelope import Envelope, Headers
from fencepost.errors import ParkError
from fencepost.handoffs import encoded, not_carried
from fencepost.message import Stored
from fencepost.ports import Failure

TOMBSTONE = b"fencepost-tombstone: true\r\n"
"""The header of a message whose payload is None. Its body is empty, as that of a message with an empty payload."""

_HEAD_BYTES_MAX = 65_535
_ROOM = 256
"""What a batch or the duplicate window adds to the headers, at most."""
_SUBJECTS_KEPT_MAX = 10_000
_NAME = re.compile(r"(?i)(?!nats-)[!-9;-~]+\Z")
"""A row of somebody else's table may hold what ``add`` refuses: names that are commands to the server."""


class Encoded(NamedTuple):
    """One message. ``head`` is without the empty line that ends the headers, so that more of them can follow."""

    subject: bytes
    head: bytes
    body: bytes


class Encoder:
    """Encodes messages for one stream."""

    def __init__(self, envelope: Envelope, subject_prefix: str) -> None:
        self._envelope = envelope
        self._prefix = subject_prefix
        self._subjects: dict[str, bytes] = {}

    def fault(self, topic: str) -> str:
        """Why a topic cannot be a subject, "" where it can."""
        return subject_fault(self._prefix + topic)

    def subject(self, topic: str) -> str:
        """The subject of a topic. Raises ParkError where there is none."""
        subject = self._prefix + topic
        if fault := self.fault(topic):
            raise ParkError(
                f"topic {topic[:300]!r} cannot be the NATS subject {subject[:300]!r}: it {fault}",
                remedy="send it to another topic",
                at_once=True,
            )
        return subject

    def batch(self, messages: Sequence[Stored], bytes_max: int) -> tuple[list[Encoded], list[Failure]]:
        """The messages that can go, and the others with the reason. ``bytes_max`` is for headers and payload."""
        return encoded(messages, lambda message: self.one(message, bytes_max))

    def one(self, message: Stored, bytes_max: int) -> Encoded:
        """One message. Raises ParkError."""
        subject = self._subjects.get(message.topic) or self._keep_subject(message.topic)
        head = _head(message, self._envelope.headers(message))
        body = self._envelope.body(message)
        if body is None:
            head, body = head + TOMBSTONE, b""
        if len(head) + len(body) + _ROOM > bytes_max or len(head) + _ROOM > _HEAD_BYTES_MAX:
            raise _too_large(message, len(head), len(body), bytes_max)
        return Encoded(subject, head, body)

    def _keep_subject(self, topic: str) -> bytes:
        if len(self._subjects) >= _SUBJECTS_KEPT_MAX:  # topics taken from data must not fill the memory
            self._subjects.clear()
        self._subjects[topic] = self.subject(topic).encode()
        return self._subjects[topic]


def _head(message: Stored, headers: Headers) -> bytes:
    lines = [f"{name}: {value}" for name, value in headers]
    text = "\r\n".join(lines)
    if text.count("\n") >= len(lines) or text.count("\r") >= len(lines):
        raise _not_carried(message, "a header has a line break")
    if message.key is not None and message.key != message.key.strip():
        raise _not_carried(message, f"the key {message.key!r} begins or ends with a blank, which readers would lose")
    if message.headers and (wrong := [n for n in message.headers if not _NAME.match(n)]):
        raise _not_carried(message, f"the header name {wrong[0][:300]!r} is not usable or belongs to the server")
    try:
        return f"{HEADER_LINE}{text}\r\n".encode()
    except UnicodeEncodeError as error:
        raise _not_carried(message, "a header cannot be written as UTF-8") from error


def _not_carried(message: Stored, why: str) -> ParkError:
    return not_carried("NATS", message, why)


def _too_large(message: Stored, head_bytes: int, body_bytes: int, bytes_max: int) -> ParkError:
    what = f"message {message.id} has {body_bytes:,} bytes of payload and {head_bytes:,} of headers"
    if head_bytes + _ROOM > _HEAD_BYTES_MAX:
        return ParkError(f"{what}; NATS takes {_HEAD_BYTES_MAX:,} of headers", remedy="use fewer headers", at_once=True)
    return ParkError(
        f"{what}; this stream takes {bytes_max:,} together, {_ROOM} of them for the delivery itself",
        remedy="store the large part elsewhere, or raise max_payload of the server (max_msg_size of the stream)",
        at_once=True,
    )
