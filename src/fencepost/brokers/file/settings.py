"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fencepost.errors import ConfigurationError
from fencepost.plugins import suggestion

LINE_BYTES_MAX = 16_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set in ``[broker]`` besides the URL.

    ``fsync``: a message counts as published when the disk has it, not only the operating system. ``line_bytes_max`` is
    the longest line that readers take.
    """

    fsync: bool = True
    line_bytes_max: int = LINE_BYTES_MAX


def read(given: Mapping[str, object]) -> Settings:
    """The settings. Raises ConfigurationError for a name that is not known or a value that cannot be meant."""
    settings, errors = parse(given)
    for error in errors.values():
        raise error
    return settings


def parse(given: Mapping[str, object]) -> tuple[Settings, dict[str, ConfigurationError]]:
    """The settings, and what cannot be used of them and why, by name."""
    known = {f.name: f.type for f in fields(Settings)}
    values: dict[str, Any] = {}
    errors: dict[str, ConfigurationError] = {}
    for name, value in given.items():
        if name not in known:
            what = f"the file broker has no setting {name!r}"
            errors[name] = ConfigurationError(what, remedy=suggestion(name, known))
        elif name == "fsync" and not isinstance(value, bool):
            errors[name] = _wrong(name, value, "true or false")
        elif name == "line_bytes_max" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            errors[name] = _wrong(name, value, "a whole number above 0")
        else:
            values[name] = value
    return Settings(**values), errors


def _wrong(name: str, value: object, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"the setting {name} = {value!r} is not usable", remedy=f"it must be {wanted}")
