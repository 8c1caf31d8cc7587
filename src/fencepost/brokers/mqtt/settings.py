"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fencepost.brokers.mqtt.texts import TEXT_BYTES_MAX, text_fault, topic_fault
from fencepost.errors import ConfigurationError
from fencepost.servers import TlsSettings

PACKET_BYTES_MAX = 268_435_460
"""What MQTT itself can say the length of: 268,435,455 bytes and the five that say it."""

PLACES = ("key", "topic", "type")
_PLACE = re.compile(r"\{(topic|key|type)\}")
_KEEPALIVE_MAX_S = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(TlsSettings):
    """What can be set in ``[broker]`` besides the URL.

    ``topic`` is a template of the MQTT topic, ``separator`` what becomes the "/" between its levels. ``retain`` has the
    server keep the last message of each MQTT topic. ``allow_no_subscribers`` takes a message as published although the
    server had nobody to give it to. ``client_id`` is a template, too. ``packet_bytes_max`` is for servers that do not
    tell their limit. ``publish_s`` is how long the messages of a batch may take, which servers that allow few at once
    make long; None for most of what the lease allows.
    """

    title = "MQTT"

    topic: str = "{topic}"
    separator: str = ""
    retain: bool = False
    allow_no_subscribers: bool = False
    client_id: str = "fencepost-{lane}"
    packet_bytes_max: int = PACKET_BYTES_MAX
    publish_s: float | None = None
    keepalive_s: int = 30
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def topic_is_place(self) -> bool:
        """True where all messages of a topic go to one MQTT topic."""
        return set(_PLACE.findall(self.topic)) == {"topic"}

    def unfit(self) -> Iterator[tuple[str, str | ConfigurationError]]:
        """See Settings."""
        yield from self._unfit_templates()
        if len(self.separator) > 1 or self.separator not in "._-":
            yield "separator", 'one of ".", "-" and "_", or "" for none'
        if self.keepalive_s > _KEEPALIVE_MAX_S:
            yield "keepalive_s", f"at most {_KEEPALIVE_MAX_S} seconds"
        if self.packet_bytes_max > PACKET_BYTES_MAX:
            yield "packet_bytes_max", f"at most {PACKET_BYTES_MAX:,}, which is MQTT's own limit"
        for name in ("user", "password"):
            if fault := text_fault(getattr(self, name)):
                yield name, f"a text that MQTT can carry; this one {fault}"
        yield from TlsSettings.unfit(self)

    def _unfit_templates(self) -> Iterator[tuple[str, str]]:
        rest = _PLACE.sub("", self.topic)
        if "{" in rest or "}" in rest or "topic" not in _PLACE.findall(self.topic):
            yield "topic", 'a text with {topic}, and perhaps {key} and {type}, such as "shop/{topic}"'
        elif fault := topic_fault(_PLACE.sub("x", self.topic)):
            yield "topic", f"a topic that MQTT can have; this one {fault}"
        client_id = self.client_id
        if client_id.count("{lane}") != 1 or client_id.count("{") != 1 or client_id.count("}") != 1:
            yield "client_id", 'a text with {lane} in it, such as "shop-{lane}": a server lets in one client of each id'
        elif (fault := text_fault(client_id)) or len(client_id.encode()) > TEXT_BYTES_MAX - 300:
            yield "client_id", f"a text that MQTT can carry; this one {fault or 'is too long'}"
