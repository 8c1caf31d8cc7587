"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from fencepost.errors import ConfigurationError
from fencepost.plugins import suggestion

BATCH_MAX = 2_000
_BATCH_MAX_HIGH = 10_000
"""While a script runs nobody else is served."""

MESSAGE_BYTES_MAX = 16_777_216
_MESSAGE_BYTES_HIGH = 268_435_456
"""Half of what the protocol takes as one value (proto-max-bulk-len), where nobody changed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set in ``[broker]`` besides the URL.

    ``prefix`` stands before each topic; in a cluster it has the hash tag. ``payload_field`` is the name of the field
    with the payload. ``maxlen`` is about how many entries a stream keeps; without it all of them. ``wait_replicas`` is
    how many replicas must have a batch before it counts as published. ``batch_max`` counts messages of one script,
    ``message_bytes_max`` bytes of one message with its fields.
    """

    prefix: str = ""
    payload_field: str = "payload"
    maxlen: int | None = None
    wait_replicas: int = 0
    batch_max: int = BATCH_MAX
    message_bytes_max: int = MESSAGE_BYTES_MAX


def read(given: Mapping[str, object]) -> Settings:
    """The settings. Raises ConfigurationError for a name that is not known or a value that cannot be meant."""
    settings, errors = parse(given)
    for error in errors.values():
        raise error
    return settings


def parse(given: Mapping[str, object]) -> tuple[Settings, dict[str, ConfigurationError]]:
    """The settings, and what cannot be used of them and why, by name."""
    values: dict[str, object] = {}
    errors: dict[str, ConfigurationError] = {}
    for name, value in given.items():
        try:
            values[name] = _value(name, value)
        except ConfigurationError as error:
            errors[name] = error
    return Settings(**values), errors  # type: ignore[arg-type]


def _value(name: str, value: object) -> object:
    known = [f.name for f in fields(Settings)]
    if name not in known:
        raise ConfigurationError(f"the Redis broker has no setting {name!r}", remedy=suggestion(name, known))
    return _READERS[name](name, value)


def _prefix(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):  # an environment variable that looks like a number
        return str(value)
    if isinstance(value, str) and (not value or value.isprintable()):
        return value
    raise _wrong(name, value, 'printable text such as "shop:"')


def _field(name: str, value: object) -> str:
    if text := _prefix(name, value):
        return text
    raise _wrong(name, value, 'the name of a field such as "payload"')


def _count(low: int, high: int) -> Callable[[str, object], int]:
    def reader(name: str, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise _wrong(name, value, f"a whole number from {low:,} to {high:,}")

    return reader


_READERS: dict[str, Callable[[str, object], object]] = {
    "prefix": _prefix,
    "payload_field": _field,
    "maxlen": _count(1, 2**53),
    "wait_replicas": _count(0, 100),
    "batch_max": _count(1, _BATCH_MAX_HIGH),
    "message_bytes_max": _count(1_000, _MESSAGE_BYTES_HIGH),
}


def _wrong(name: str, value: object, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"the Redis setting {name} = {value!r} is not usable", remedy=f"it must be {wanted}")
