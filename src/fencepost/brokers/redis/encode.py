"""From a message to the entry of a stream: its key and its fields. What cannot go is found before any is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.brokers.redis.keys import Keys, fault
from fencepost.brokers.redis.settings import Settings
from fencepost.envelope import Envelope
from fencepost.errors import ConfigurationError, ParkError
from fencepost.handoffs import encoded, not_carried
from fencepost.message import Stored
from fencepost.ports import Failure

FIELDS_MAX = 500
"""Of one entry: a script hands all of them over at once, and its language takes no more than some thousands."""


_FULL = Stored(1, "", "", "", 1, "", b"", "", None, 0, in_doubt=True)
"""It has every attribute."""


class Encoded(NamedTuple):
    """One message. ``words`` are names and values of its fields in turn, ``size`` their bytes."""

    stream: str
    words: list[bytes]
    size: int


class Encoder:
    """Encodes messages. A payload of None is an entry without the payload's field.

    Raises ConfigurationError where an attribute has the name of the payload's field.
    """

    def __init__(self, envelope: Envelope, settings: Settings) -> None:
        self._envelope, self._keys = envelope, Keys(settings.prefix)
        self._payload_field, self._payload_name = settings.payload_field, settings.payload_field.encode()
        if self._payload_field in dict(envelope.headers(_FULL)):
            raise ConfigurationError(
                f"{self._payload_field!r} is the payload's field and a header too",
                remedy="change payload_field or header_map in [broker]",
            )

    def batch(self, messages: Sequence[Stored], bytes_max: int) -> tuple[list[Encoded], list[Failure]]:
        """The messages that can go, and the others with the reason. ``bytes_max`` is for all fields of a message."""
        return encoded(messages, lambda message: self.one(message, bytes_max))

    def one(self, message: Stored, bytes_max: int) -> Encoded:
        """One message. Raises ParkError."""
        if why := fault(message.topic):
            raise ParkError(
                f"topic {message.topic[:300]!r} cannot be a stream of Redis: it {why}",
                remedy="send it to another topic",
                at_once=True,
            )
        words, body = self._words(message), self._envelope.body(message)
        if body is not None:
            words += (self._payload_name, body)
        size = sum(map(len, words))
        if size > bytes_max:
            raise _too_large(message, size, bytes_max)
        if not 0 < len(words) <= 2 * FIELDS_MAX:
            raise _not_carried(message, f"it has {len(words) // 2:,} fields, and 1 to {FIELDS_MAX} are possible")
        return Encoded(self._keys.stream(message.topic), words, size)

    def _words(self, message: Stored) -> list[bytes]:
        headers = self._envelope.headers(message)
        if message.headers and self._payload_field in dict(headers):
            raise _not_carried(message, f"its header {self._payload_field!r} has the name of the payload's field")
        try:
            return [word.encode() for header in headers for word in header]
        except UnicodeEncodeError as error:
            raise _not_carried(message, "a header cannot be written as UTF-8") from error


def _not_carried(message: Stored, why: str) -> ParkError:
    remedy = "change the message, or payload_field and header_map in [broker]"
    return not_carried("Redis", message, why, remedy=remedy)


def _too_large(message: Stored, size: int, bytes_max: int) -> ParkError:
    return ParkError(
        f"message {message.id} has {size:,} bytes with its headers; {bytes_max:,} are taken",
        remedy="store the large part elsewhere, or raise message_bytes_max in [broker]"
        " (and the server's proto-max-bulk-len and client-query-buffer-limit)",
        at_once=True,
    )
