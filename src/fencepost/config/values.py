"""From what was written to checked values: ${VARIABLE} is replaced, blanks, types and limits are refused in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from urllib.parse import quote

from fencepost import plugins
from fencepost.config.entries import Entry
from fencepost.config.records import Rule
from fencepost.config.secrets import is_secret
from fencepost.errors import ConfigurationError
from fencepost.words import as_written, suggestion

_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


def expanded(entry: Entry, env: Mapping[str, str]) -> object:
    """The value with every ``${VARIABLE}`` replaced; ``$${X}`` stands for ``${X}``.

    Before the @ of a URL the variable's value is percent-encoded, so that a password may be any text.
    """
    text = entry.value
    if not isinstance(text, str):
        return text
    login_end = text.rfind("@") if "://" in text else -1

    def replacement(match: re.Match[str]) -> str:
        if match[1]:
            return f"${{{match[2]}}}"
        value = _variable(entry, match[2], env)
        return quote(value, safe="") if text.find("://") < match.start() < login_end else value

    return _VARIABLE.sub(replacement, text)


def _variable(entry: Entry, name: str, env: Mapping[str, str]) -> str:
    value = env.get(name)
    if value is None:
        raise ConfigurationError(
            f"{entry.where} needs the environment variable {name}, which is not set",
            remedy="set it, or write $${...} where the characters are meant as they are",
        )
    if value != value.strip():
        raise ConfigurationError(
            f"{entry.where} uses the environment variable {name}, which has blanks or line ends around its value",
            remedy="remove them (a file read by a shell often ends with a line end)",
        )
    return value


def checked(entry: Entry, rule: Rule | None, value: object) -> object:
    """The value as its rule says; None for a plug-in's own key. Raises ConfigurationError."""
    if isinstance(value, str):
        _check_blanks(entry, value)
    if rule is None:
        return value
    if rule.table:
        return _in_table(entry, rule, value)
    given, value = value, _of_kind(entry, rule, value)
    if isinstance(value, str):
        _check_text(entry, rule, value)
    elif isinstance(value, int | float) and not rule.low <= value <= rule.high:
        limits = f"from {_number(rule.low)} to {_number(rule.high)}"
        raise ConfigurationError(f"{entry.where} is {_shown(entry, given)}", remedy=f"it must be {limits}")
    return value


def _in_table(entry: Entry, rule: Rule, value: object) -> str:
    if "." not in entry.key:
        raise ConfigurationError(f"{entry.where} is not a table", remedy="write { name = ... }")
    if value is False:
        return ""
    if not isinstance(value, str) or (rule.pattern is not None and not rule.pattern.match(value)):
        raise ConfigurationError(f"{entry.where} is {_shown(entry, value)}", remedy=f"it must be {rule.meant}")
    return value


def _check_blanks(entry: Entry, value: str) -> None:
    if value != value.strip():
        raise ConfigurationError(
            f"{entry.where} has blanks around its value",
            remedy="remove them: they are never meant and would be part of the value",
        )
    if not value:
        raise ConfigurationError(
            f"{entry.where} is empty", remedy="write a value, or leave the key out for the default"
        )


def _of_kind(entry: Entry, rule: Rule, value: object) -> object:
    if rule.kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if rule.or_number and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if type(value) is not rule.kind or (isinstance(value, float) and not math.isfinite(value)):
        raise ConfigurationError(f"{entry.where} is {_shown(entry, value)}", remedy=f"it must be {_KINDS[rule.kind]}")
    return value


def _check_text(entry: Entry, rule: Rule, value: str) -> None:
    if rule.plugin:
        _check_url(entry, rule.plugin, value)
    elif rule.choices and value not in rule.choices:
        raise ConfigurationError(f"{entry.where} is {_shown(entry, value)}", remedy=suggestion(value, rule.choices))
    elif rule.pattern is not None and not rule.pattern.match(value):
        raise ConfigurationError(f"{entry.where} is {_shown(entry, value)}", remedy=f"it must be {rule.meant}")


def _check_url(entry: Entry, kind: str, url: str) -> None:
    """The URL names a known plug-in, or the dotted name of somebody else's. The plug-in itself reads the rest."""
    if "://" not in url and url not in plugins.ALONE:
        raise ConfigurationError(f"{entry.where} is not a URL", remedy=plugins.a_url(kind))
    name = plugins.name_of(kind, url)
    if name not in plugins.names(kind) and "." not in name:
        what = f"{entry.where}: no {kind} is called {name!r}"
        raise ConfigurationError(what, remedy=plugins.known_are(kind, name))


def _number(limit: float) -> str:
    """Every digit, in groups as TOML takes them: 1_000_000."""
    return f"{int(limit):_}" if limit == int(limit) else f"{limit:g}"


def _shown(entry: Entry, value: object) -> str:
    """A wrong value for an error: never that of a key that looks secret, never a long one."""
    if is_secret(entry.key, value) or (isinstance(value, str) and "://" in value):
        return f"a {type(value).__name__}"
    text = as_written(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
