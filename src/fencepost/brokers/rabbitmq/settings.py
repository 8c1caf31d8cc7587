"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from fencepost.errors import ConfigurationError
from fencepost.plugins import suggestion

QUEUES = "queues."
"""What stands before the name of a queue that is declared."""
NAME_BYTES_MAX = 255
MESSAGE_BYTES_MAX = 16_777_216
"""RabbitMQ's own limit from version 4.0 on; before, it was 134,217,728."""

_TYPES = ("direct", "fanout", "headers", "topic")
_QUEUE_TYPES = ("classic", "quorum", "stream")
_PLACE = re.compile(r"\{(topic|key|type)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set in ``[broker]`` besides the URL.

    ``exchange`` takes the messages; "" is the default exchange, where a topic is a queue. It and ``routing_key`` are
    templates. ``queues`` are declared by name, each with its binding keys, of the type ``queue_type``.
    """

    exchange: str = ""
    exchange_type: str = "topic"
    routing_key: str = "{topic}"
    queues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    queue_type: str = "quorum"
    header_prefix: str = "cloudEvents:"
    message_bytes_max: int = MESSAGE_BYTES_MAX
    heartbeat_s: int = 30
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
    def exchange_per_topic(self) -> bool:
        """True where each topic has an exchange of its own."""
        return "{topic}" in self.exchange

    @property
    def queue_per_topic(self) -> bool:
        """True where each topic is a queue."""
        return not self.exchange and topic_decides(self.routing_key)


def topic_decides(routing_key: str) -> bool:
    """Whether this template gives all messages of a topic the same routing key."""
    return set(_PLACE.findall(routing_key)) <= {"topic"}


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
    queues: dict[str, tuple[str, ...]] = {}
    errors: dict[str, ConfigurationError] = {}
    for name, value in given.items():
        try:
            if name.startswith(QUEUES):
                queues[_queue_name(name)] = _texts(name, value)
            else:
                values[name] = _value(name, value)
        except ConfigurationError as error:
            errors[name] = error
    settings = Settings(**values, queues=queues)  # type: ignore[arg-type]
    return settings, errors | {name: error for name, error in _unfit(settings) if name in given}


def _value(name: str, value: object) -> object:
    known = [f.name for f in fields(Settings)]
    if name not in known:
        raise ConfigurationError(f"the RabbitMQ broker has no setting {name!r}", remedy=suggestion(name, known))
    if name == "queues":
        raise _wrong(name, value, 'a table, [broker.queues], with lines such as billing = ["order.*"]')
    return _READERS.get(name, _text)(name, value)


def _queue_name(setting: str) -> str:
    name = setting.removeprefix(QUEUES)
    if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        raise _wrong(setting, name, f"the name of a queue, with at most {NAME_BYTES_MAX} bytes")
    return name


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):  # an environment variable that looks like a number
        return str(value)
    raise _wrong(name, value, "a text")


def _count(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise _wrong(name, value, "a whole number above 0")


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [text.strip() for text in value.split(",") if text.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise _wrong(name, value, 'a list of binding keys such as ["order.*", "payment.#"]')
    if any(len(text.encode()) > NAME_BYTES_MAX for text in value):
        raise _wrong(name, value, f"a list of binding keys with at most {NAME_BYTES_MAX} bytes")
    return tuple(value)


_READERS: dict[str, Callable[[str, object], object]] = {"message_bytes_max": _count, "heartbeat_s": _count}


def _wrong(name: str, value: object, wanted: str) -> ConfigurationError:
    shown = "***" if name == "password" else repr(value)
    return ConfigurationError(f"the RabbitMQ setting {name} = {shown} is not usable", remedy=f"it must be {wanted}")


def _unfit(settings: Settings) -> Iterator[tuple[str, ConfigurationError]]:
    """What cannot be meant, by the name of a setting."""
    yield from _unfit_templates(settings)
    kind = settings.exchange_type
    if kind not in _TYPES and not kind.startswith("x-"):
        wanted = f"one of {', '.join(_TYPES)}, or x-... of a plug-in of the server"
        yield "exchange_type", _wrong("exchange_type", kind, wanted)
    if settings.queue_type not in _QUEUE_TYPES:
        yield "queue_type", _wrong("queue_type", settings.queue_type, f"one of {', '.join(_QUEUE_TYPES)}")
    if not settings.header_prefix.isascii() or not settings.header_prefix.isprintable():
        yield "header_prefix", _wrong("header_prefix", settings.header_prefix, 'such as "cloudEvents_"')
    if settings.heartbeat_s > 60_000:
        yield "heartbeat_s", _wrong("heartbeat_s", settings.heartbeat_s, "a number of seconds, at most 60000")
    if bool(settings.tls_cert) != bool(settings.tls_key):
        given = "tls_cert" if settings.tls_cert else "tls_key"
        yield given, ConfigurationError("tls_cert and tls_key belong together", remedy="set both or none")
    if not settings.exchange and any(settings.queues.values()):
        for name, keys in settings.queues.items():
            if keys:
                yield (
                    QUEUES + name,
                    _wrong(QUEUES + name, list(keys), "empty: nothing is bound to the default exchange"),
                )


def _unfit_templates(settings: Settings) -> Iterator[tuple[str, ConfigurationError]]:
    for name, template, places in (
        ("exchange", settings.exchange, {"topic"}),
        ("routing_key", settings.routing_key, {"topic", "key", "type"}),
    ):
        rest = _PLACE.sub("", template)
        if "{" in rest or "}" in rest or not set(_PLACE.findall(template)) <= places:
            known = ", ".join(f"{{{place}}}" for place in sorted(places))
            yield name, _wrong(name, template, f"a text in which only {known} stand in braces")
        elif len(rest.encode()) > NAME_BYTES_MAX:
            yield name, _wrong(name, template, f"a text of at most {NAME_BYTES_MAX} bytes")
