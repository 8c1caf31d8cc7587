"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.errors import ConfigurationError
from fencepost.servers import TlsSettings
from fencepost.settings import Given, table, texts

QUEUES = "queues."
"""What stands before the name of a queue that is declared."""
NAME_BYTES_MAX = 255
MESSAGE_BYTES_MAX = 16_777_216
"""RabbitMQ's own limit from version 4.0 on; before, it was 134,217,728."""

_TYPES = ("direct", "fanout", "headers", "topic")
_QUEUE_TYPES = ("classic", "quorum", "stream")
_PLACE = re.compile(r"\{(topic|key|type)\}")
_read_keys = texts('a list of binding keys such as ["order.*", "payment.#"]')


def _keys(given: Given) -> tuple[str, ...]:
    keys = _read_keys(given)
    if any(len(key.encode()) > NAME_BYTES_MAX for key in keys):
        raise given.wrong(f"a list of binding keys with at most {NAME_BYTES_MAX} bytes")
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(TlsSettings):
    """What can be set in ``[broker]`` besides the URL.

    ``exchange`` takes the messages; "" is the default exchange, where a topic is a queue. It and ``routing_key`` are
    templates. ``queues`` are declared by name, each with its binding keys, of the type ``queue_type``.
    """

    title = "RabbitMQ"

    exchange: str = ""
    exchange_type: str = "topic"
    routing_key: str = "{topic}"
    queues: Mapping[str, tuple[str, ...]] = table(
        _keys, example='a table, [broker.queues], with lines such as billing = ["order.*"]'
    )
    queue_type: str = "quorum"
    header_prefix: str = "cloudEvents:"
    message_bytes_max: int = MESSAGE_BYTES_MAX
    heartbeat_s: int = 30
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def exchange_per_topic(self) -> bool:
        """True where each topic has an exchange of its own."""
        return "{topic}" in self.exchange

    @property
    def queue_per_topic(self) -> bool:
        """True where each topic is a queue."""
        return not self.exchange and topic_decides(self.routing_key)

    def unfit(self) -> Iterator[tuple[str, str | ConfigurationError]]:
        """See Settings."""
        yield from self._unfit_templates()
        if self.exchange_type not in _TYPES and not self.exchange_type.startswith("x-"):
            yield "exchange_type", f"one of {', '.join(_TYPES)}, or x-... of a plug-in of the server"
        if self.queue_type not in _QUEUE_TYPES:
            yield "queue_type", f"one of {', '.join(_QUEUE_TYPES)}"
        if not self.header_prefix.isascii() or not self.header_prefix.isprintable():
            yield "header_prefix", 'such as "cloudEvents_"'
        if self.heartbeat_s > 60_000:
            yield "heartbeat_s", "a number of seconds, at most 60000"
        yield from TlsSettings.unfit(self)
        for name, keys in self.queues.items():
            if len(name.encode()) > NAME_BYTES_MAX:
                yield QUEUES + name, f"behind the name of a queue, with at most {NAME_BYTES_MAX} bytes"
            if keys and not self.exchange:
                yield QUEUES + name, "empty: nothing is bound to the default exchange"

    def _unfit_templates(self) -> Iterator[tuple[str, str]]:
        for name, template, places in (
            ("exchange", self.exchange, {"topic"}),
            ("routing_key", self.routing_key, {"topic", "key", "type"}),
        ):
            rest = _PLACE.sub("", template)
            if "{" in rest or "}" in rest or not set(_PLACE.findall(template)) <= places:
                known = ", ".join(f"{{{place}}}" for place in sorted(places))
                yield name, f"a text in which only {known} stand in braces"
            elif len(rest.encode()) > NAME_BYTES_MAX:
                yield name, f"a text of at most {NAME_BYTES_MAX} bytes"


def topic_decides(routing_key: str) -> bool:
    """Whether this template gives all messages of a topic the same routing key."""
    return set(_PLACE.findall(routing_key)) <= {"topic"}
