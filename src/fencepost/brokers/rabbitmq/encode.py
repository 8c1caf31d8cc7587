"""From a message to what goes on the wire: exchange, routing key, frames. What cannot go is found before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fencepost.brokers.rabbitmq import wire
from fencepost.brokers.rabbitmq.link import CHANNEL
from fencepost.brokers.rabbitmq.settings import NAME_BYTES_MAX, Settings, topic_decides
from fencepost.envelope import Envelope
from fencepost.errors import ParkError
from fencepost.handoffs import not_carried
from fencepost.message import Stored
from fencepost.routes import filled

TOMBSTONE = ("fencepost-tombstone", "true")
"""The header of a message whose payload is None. Its body is empty, as that of a message with an empty payload."""

_CONTENT_TYPE = "content-type"
_ROUTES_KEPT_MAX = 10_000
_COMMANDS = frozenset({"CC", "BCC"})
"""Names of headers by which the server routes; a row of somebody else's table may have one by chance."""


class Route(NamedTuple):
    """Where a message goes."""

    exchange: str
    key: str


class Encoded(NamedTuple):
    """One message, ready to be sent."""

    route: Route
    frames: bytes


class Encoder:
    """Encodes messages. ``frame_bytes_max`` is what the server and the library have agreed on, ``bytes_max`` the limit
    of a body, which may become less when the server tells its own.
    """

    def __init__(
        self, envelope: Envelope, settings: Settings, frame_bytes_max: int, bytes_max: Callable[[], int]
    ) -> None:
        self._envelope = envelope
        self._exchange, self._key = settings.exchange, settings.routing_key
        self._frame_bytes_max, self._bytes_max = frame_bytes_max, bytes_max
        self._begin: dict[Route, bytes] = {}
        self.topics_are_places = topic_decides(settings.routing_key)
        """True where all messages of a topic go to one place: what is wrong with it is wrong for all of them."""

    def one(self, message: Stored) -> Encoded:
        """One message. Raises ParkError."""
        try:
            return self._one(message)
        except UnicodeEncodeError as error:
            raise _not_carried(message, "a text of it cannot be written as UTF-8") from error

    def _one(self, message: Stored) -> Encoded:
        route = route_of(message, self._exchange, self._key)
        body = self._envelope.body(message)
        data = body or b""
        if len(data) > self._bytes_max():
            raise _too_large(message, len(data), self._bytes_max())
        header = self._header(message, len(data), is_tombstone=body is None)
        begin = self._begin.get(route) or self._keep(message, route)
        return Encoded(route, begin + header + wire.body(CHANNEL, data, self._frame_bytes_max))

    def _header(self, message: Stored, size: int, *, is_tombstone: bool) -> bytes:
        content_type, fields = "", []
        headers = self._envelope.headers(message)
        for name, value in [*headers, TOMBSTONE] if is_tombstone else headers:
            if name == _CONTENT_TYPE:
                content_type = value
            elif name in _COMMANDS:
                raise _not_carried(message, f"by the header {name} RabbitMQ would send it elsewhere")
            else:
                fields.append(wire.field(_short(message, "header name", name), value.encode()))
        kind, message_id = _short(message, "content type", content_type), _short(message, "id", message.id)
        frame = wire.header(CHANNEL, size, kind, message_id, b"".join(fields))
        if len(frame) > self._frame_bytes_max:
            raise ParkError(
                f"message {message.id} has {len(frame):,} bytes of headers; RabbitMQ takes {self._frame_bytes_max:,}",
                remedy="use fewer headers, or raise frame_max of the server",
                at_once=True,
            )
        return frame

    def _keep(self, message: Stored, route: Route) -> bytes:
        if len(self._begin) >= _ROUTES_KEPT_MAX:  # topics and keys taken from data must not fill the memory
            self._begin.clear()
        exchange, key = _short(message, "exchange", route.exchange), _short(message, "routing key", route.key)
        self._begin[route] = wire.publish(CHANNEL, exchange, key)
        return self._begin[route]


def route_of(message: Stored, exchange: str, key: str) -> Route:
    """Where the templates send a message. One without a key has an empty text in its place."""
    if "{topic}" in exchange:
        exchange = exchange.replace("{topic}", message.topic)
    if key == "{topic}":
        return Route(exchange, message.topic)
    places = {"topic": message.topic, "key": message.key or "", "type": message.type}
    return Route(exchange, filled(key, places))


def _short(message: Stored, what: str, text: str) -> bytes:
    data = text.encode()
    if len(data) > NAME_BYTES_MAX:
        raise _not_carried(message, f"its {what} {text[:60]!r}... has {len(data)} bytes of at most {NAME_BYTES_MAX}")
    return data


def _not_carried(message: Stored, why: str) -> ParkError:
    return not_carried("RabbitMQ", message, why)


def _too_large(message: Stored, size: int, most: int) -> ParkError:
    return ParkError(
        f"message {message.id} has a body of {size:,} bytes; the limit is {most:,}",
        remedy="store the large part elsewhere, or raise message_bytes_max (and max_message_size of the server)",
        at_once=True,
    )
