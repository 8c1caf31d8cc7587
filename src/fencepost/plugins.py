"""From a name or a URL to the plug-in's module: the only place where a plug-in is imported.

A plug-in is one module in the folder of its kind, or any dotted module of somebody else's. Its third-party library is
imported there and nowhere else.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import NamedTuple

from fencepost.errors import ConfigurationError, MissingExtra, UnknownPlugin


class _Known(NamedTuple):
    module: str
    extra: str | None


_KNOWN: dict[str, dict[str, _Known]] = {
    "database": {
        "memory": _Known("fencepost.databases.memory", None),
        "postgresql": _Known("fencepost.databases.postgresql", "postgresql"),
        "sqlite": _Known("fencepost.databases.sqlite", "sqlite"),
    },
    "driver": {
        "asyncpg": _Known("fencepost.drivers.asyncpg", "postgresql"),
        "psycopg": _Known("fencepost.drivers.psycopg", "psycopg"),
        "sqlalchemy": _Known("fencepost.drivers.sqlalchemy", None),
        "sqlite3": _Known("fencepost.drivers.sqlite3", None),
    },
    "broker": {
        "kafka": _Known("fencepost.brokers.kafka", "kafka"),
        "memory": _Known("fencepost.brokers.memory", None),
        "nats": _Known("fencepost.brokers.nats", "nats"),
    },
    "election": {
        "memory": _Known("fencepost.elections.memory", None),
        "postgresql": _Known("fencepost.elections.sql", "postgresql"),
        "sqlite": _Known("fencepost.elections.sql", "sqlite"),
    },
}

_SYNONYMS = {"postgres": "postgresql"}


def names(kind: str) -> list[str]:
    """The known names of a kind ("database", "driver", "broker", "election"), sorted."""
    return sorted(_KNOWN[kind])


def load(kind: str, name: str) -> ModuleType:
    """The module of a plug-in. A name with a dot is a module of somebody else's.

    Raises UnknownPlugin (lists the known ones) or MissingExtra (names the extra to install).
    """
    known = _KNOWN[kind].get(name)
    if known is None and "." not in name:
        raise UnknownPlugin(
            f"no {kind} is called {name!r}",
            remedy=f"known are {', '.join(names(kind))}, or the dotted name of a module of your own",
        )
    module = known.module if known else name
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if known is None and error.name and module.startswith(error.name):
            raise UnknownPlugin(
                f"there is no module {module!r} for a {kind}", remedy="check its spelling and that it is installed"
            ) from error
        extra = known.extra if known else None
        if extra is None or (error.name or "").startswith("fencepost"):
            raise
        raise MissingExtra(
            f"the {kind} {name!r} needs the library {error.name!r}, which is not installed",
            remedy=f'pip install "fencepost[{extra}]"',
        ) from error


def name_of(kind: str, url: str) -> str:
    """The plug-in's name in a URL: the scheme without a driver ("postgresql+asyncpg://..." is "postgresql").

    Raises ConfigurationError where the text has no scheme.
    """
    scheme, separator, _ = url.partition("://")
    if not separator or not scheme:
        shown = url if "@" not in url else "***"
        raise ConfigurationError(
            f"{shown!r} is not a {kind} URL",
            remedy=f"write scheme://..., the scheme being one of {', '.join(names(kind))}",
        )
    name = scheme.partition("+")[0].lower()
    return _SYNONYMS.get(name, name)
