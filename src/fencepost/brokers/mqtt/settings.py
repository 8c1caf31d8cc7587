"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from fencepost.brokers.mqtt.texts import TEXT_BYTES_MAX, text_fault, topic_fault
from fencepost.errors import ConfigurationError
from fencepost.plugins import suggestion

PACKET_BYTES_MAX = 268_435_460
"""What MQTT itself can say the length of: 268,435,455 bytes and the five that say it."""

PLACES = ("key", "topic", "type")
_PLACE = re.compile(r"\{(topic|key|type)\}")
_KEEPALIVE_MAX_S = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set in ``[broker]`` besides the URL.

    ``topic`` is a template of the MQTT topic, ``separator`` what becomes the "/" between its levels. ``retain`` has the
    server keep the last message of each MQTT topic. ``allow_no_subscribers`` takes a message as published although the
    server had nobody to give it to. ``client_id`` is a template, too. ``packet_bytes_max`` is for servers that do not
    tell their limit. ``publish_s`` is how long the messages of a batch may take, which servers that allow few at once
    make long.
    """

    topic: str = "{topic}"
    separator: str = ""
    retain: bool = False
    allow_no_subscribers: bool = False
    client_id: str = "fencepost-{lane}"
    packet_bytes_max: int = PACKET_BYTES_MAX
    publish_s: float = 1.6
    keepalive_s: int = 30
    user: str = ""
    password: str = field(default="", repr=False)
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""

    @property
    def tls(self) -> bool:
        """True where a TLS setting is given."""
        return bool(self.tls_ca or self.tls_cert or self.tls_key)

    @property
    def topic_is_place(self) -> bool:
        """True where all messages of a topic go to one MQTT topic."""
        return set(_PLACE.findall(self.topic)) == {"topic"}


def read(given: Mapping[str, object]) -> Settings:
    """The settings. Raises ConfigurationError for a name that is not known or a value that cannot be meant, or where a
    file is not there.
    """
    settings, errors = parse(given)
    for error in errors.values():
        raise error
    for name in ("tls_ca", "tls_cert", "tls_key"):
        path = getattr(settings, name)
        if path and not Path(path).is_file():
            raise ConfigurationError(f"there is no file {path!r}, which {name} names", remedy="check the path")
    return settings


def parse(given: Mapping[str, object]) -> tuple[Settings, dict[str, ConfigurationError]]:
    """The settings, and what cannot be used of them and why, by name. At files it does not look."""
    values: dict[str, object] = {}
    errors: dict[str, ConfigurationError] = {}
    for name, value in given.items():
        try:
            values[name] = _value(name, value)
        except ConfigurationError as error:
            errors[name] = error
    settings = Settings(**values)  # type: ignore[arg-type]
    return settings, errors | {name: error for name, error in _unfit(settings) if name in values}


def _value(name: str, value: object) -> object:
    known = [f.name for f in fields(Settings)]
    if name not in known:
        raise ConfigurationError(f"the MQTT broker has no setting {name!r}", remedy=suggestion(name, known))
    return _READERS.get(name, _text)(name, value)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):  # an environment variable that looks like a number
        return str(value)
    raise _wrong(name, value, "a text")


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _wrong(name, value, "true or false")


def _count(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise _wrong(name, value, "a whole number above 0")


def _seconds(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise _wrong(name, value, "a number of seconds above 0")


_READERS: dict[str, Callable[[str, object], object]] = {
    "retain": _flag,
    "allow_no_subscribers": _flag,
    "packet_bytes_max": _count,
    "publish_s": _seconds,
    "keepalive_s": _count,
}


def _wrong(name: str, value: object, wanted: str) -> ConfigurationError:
    shown = "***" if name == "password" else repr(value)
    return ConfigurationError(f"the MQTT setting {name} = {shown} is not usable", remedy=f"it must be {wanted}")


def _unfit(settings: Settings) -> Iterator[tuple[str, ConfigurationError]]:
    """What cannot be meant, by the name of a setting."""
    yield from _unfit_templates(settings)
    if len(settings.separator) > 1 or settings.separator not in "._-":
        yield "separator", _wrong("separator", settings.separator, 'one of ".", "-" and "_", or "" for none')
    if settings.keepalive_s > _KEEPALIVE_MAX_S:
        yield "keepalive_s", _wrong("keepalive_s", settings.keepalive_s, f"at most {_KEEPALIVE_MAX_S} seconds")
    if settings.packet_bytes_max > PACKET_BYTES_MAX:
        wanted = f"at most {PACKET_BYTES_MAX:,}, which is MQTT's own limit"
        yield "packet_bytes_max", _wrong("packet_bytes_max", settings.packet_bytes_max, wanted)
    for name in ("user", "password"):
        if fault := text_fault(getattr(settings, name)):
            yield name, _wrong(name, getattr(settings, name), f"a text that MQTT can carry; this one {fault}")
    if bool(settings.tls_cert) != bool(settings.tls_key):
        given = "tls_cert" if settings.tls_cert else "tls_key"
        yield given, ConfigurationError("tls_cert and tls_key belong together", remedy="set both or none")


def _unfit_templates(settings: Settings) -> Iterator[tuple[str, ConfigurationError]]:
    rest = _PLACE.sub("", settings.topic)
    if "{" in rest or "}" in rest or "topic" not in _PLACE.findall(settings.topic):
        wanted = 'a text with {topic}, and perhaps {key} and {type}, such as "shop/{topic}"'
        yield "topic", _wrong("topic", settings.topic, wanted)
    elif fault := topic_fault(_PLACE.sub("x", settings.topic)):
        yield "topic", _wrong("topic", settings.topic, f"a topic that MQTT can have; this one {fault}")
    client_id = settings.client_id
    if client_id.count("{lane}") != 1 or client_id.count("{") != 1 or client_id.count("}") != 1:
        wanted = 'a text with {lane} in it, such as "shop-{lane}": a server lets in one client of each id'
        yield "client_id", _wrong("client_id", client_id, wanted)
    elif (fault := text_fault(client_id)) or len(client_id.encode()) > TEXT_BYTES_MAX - 300:
        wanted = f"a text that MQTT can carry; this one {fault or 'is too long'}"
        yield "client_id", _wrong("client_id", client_id, wanted)
