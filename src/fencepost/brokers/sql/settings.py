"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from fencepost.errors import ConfigurationError
from fencepost.plugins import suggestion

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set in ``[broker]`` besides the URL.

    ``prefix`` stands before the names of the three tables: messages, messages_lane, messages_receipt. ``schema`` is
    where they are; "" is where the connection looks by itself.
    """

    prefix: str = "fencepost_"
    schema: str = ""


def read(given: Mapping[str, object]) -> Settings:
    """The settings. Raises ConfigurationError for a name that is not known or a value that cannot be meant."""
    settings, errors = parse(given)
    for error in errors.values():
        raise error
    return settings


def parse(given: Mapping[str, object]) -> tuple[Settings, dict[str, ConfigurationError]]:
    """The settings, and what cannot be used of them and why, by name."""
    known = [f.name for f in fields(Settings)]
    values: dict[str, str] = {}
    errors: dict[str, ConfigurationError] = {}
    for name, value in given.items():
        if name not in known:
            what = f"the broker of an inbox table has no setting {name!r}"
            errors[name] = ConfigurationError(what, remedy=suggestion(name, known))
        elif not isinstance(value, str) or (value and not _NAME.match(value)):
            errors[name] = ConfigurationError(
                f"the setting {name} = {value!r} of an inbox table is not usable",
                remedy="it must be a name of A-Z a-z 0-9 and _, 40 characters at most",
            )
        else:
            values[name] = value
    return Settings(**values), errors
