"""From a name or a URL to the plug-in's module: the only place where a plug-in is imported.

A plug-in is one module in the folder of its kind, or any dotted module of somebody else's. Its third-party library is
imported there and nowhere else.

A plug-in with keys of its own may have a function ``refused(url, settings)``: what cannot be used and why, as a
ConfigurationError by the name of the key ("url" for the URL). Then a configuration tells all of it at once, each with
its line.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from fencepost.errors import ConfigurationError, MissingExtra, UnknownPlugin
from fencepost.words import suggestion


class _Known(NamedTuple):
    module: str
    extra: str | None


_KNOWN: dict[str, dict[str, _Known]] = {
    "database": {
        "cockroachdb": _Known("fencepost.databases.other_sql", "cockroachdb"),
        "dynamodb": _Known("fencepost.databases.dynamodb", "dynamodb"),
        "mariadb": _Known("fencepost.databases.mariadb", "mariadb"),
        "memory": _Known("fencepost.databases.memory", None),
        "mongodb": _Known("fencepost.databases.mongodb", "mongodb"),
        "mongodb-embedded": _Known("fencepost.databases.mongodb.embedded", "mongodb"),
        "mssql": _Known("fencepost.databases.other_sql", "mssql"),
        "mysql": _Known("fencepost.databases.mariadb", "mariadb"),
        "oracle": _Known("fencepost.databases.other_sql", "oracle"),
        "postgresql": _Known("fencepost.databases.postgresql", "postgresql"),
        "redis": _Known("fencepost.databases.redis", "redis"),
        "sqlite": _Known("fencepost.databases.sqlite", "sqlite"),
    },
    "driver": {
        "asyncmy": _Known("fencepost.drivers.asyncmy", "mariadb"),
        "asyncpg": _Known("fencepost.drivers.asyncpg", "postgresql"),
        "django": _Known("fencepost.drivers.django", "django"),
        "mysqlclient": _Known("fencepost.drivers.mysqlclient", "mysqlclient"),
        "psycopg": _Known("fencepost.drivers.psycopg", "psycopg"),
        "pymysql": _Known("fencepost.drivers.pymysql", "pymysql"),
        "sqlalchemy": _Known("fencepost.drivers.sqlalchemy", None),
        "sqlite3": _Known("fencepost.drivers.sqlite3", None),
    },
    "broker": {
        "file": _Known("fencepost.brokers.file", None),
        "http": _Known("fencepost.brokers.http", "http"),
        "kafka": _Known("fencepost.brokers.kafka", "kafka"),
        "memory": _Known("fencepost.brokers.memory", None),
        "mqtt": _Known("fencepost.brokers.mqtt", "mqtt"),
        "nats": _Known("fencepost.brokers.nats", "nats"),
        "rabbitmq": _Known("fencepost.brokers.rabbitmq", "rabbitmq"),
        "redis": _Known("fencepost.brokers.redis", "redis"),
        "sns": _Known("fencepost.brokers.sns", "sns"),
        "sql": _Known("fencepost.brokers.sql", None),
        "sqs": _Known("fencepost.brokers.sqs", "sqs"),
    },
    "election": {
        "cockroachdb": _Known("fencepost.elections.sql", "cockroachdb"),
        "dynamodb": _Known("fencepost.elections.dynamodb", "dynamodb"),
        "mariadb": _Known("fencepost.elections.sql", "mariadb"),
        "memory": _Known("fencepost.elections.memory", None),
        "mongodb": _Known("fencepost.elections.mongodb", "mongodb"),
        "mongodb-embedded": _Known("fencepost.elections.mongodb", "mongodb"),
        "mssql": _Known("fencepost.elections.sql", "mssql"),
        "mysql": _Known("fencepost.elections.sql", "mariadb"),
        "oracle": _Known("fencepost.elections.sql", "oracle"),
        "postgresql": _Known("fencepost.elections.sql", "postgresql"),
        "redis": _Known("fencepost.elections.redis", "redis"),
        "sqlite": _Known("fencepost.elections.sql", "sqlite"),
    },
}

ALONE = ("stdout:",)
"""URLs that are nothing but a scheme."""

_SYNONYMS = {
    "amqp": "rabbitmq",
    "amqps": "rabbitmq",
    "https": "http",
    "inbox": "sql",
    "mqtts": "mqtt",
    "postgres": "postgresql",
    "rediss": "redis",
    "stdout": "file",
    "valkey": "redis",
    "valkeys": "redis",
}

_SCHEMES = {"rabbitmq": "amqp", "sql": "inbox+postgresql (or another SQL database)"}
"""Names that are written otherwise in a URL."""


def names(kind: str) -> list[str]:
    """The known names of a kind ("database", "driver", "broker", "election"), sorted."""
    return sorted(_KNOWN[kind])


def known_are(kind: str, name: str) -> str:
    """The remedy for an unknown name: what a plug-in may be called."""
    return f"{suggestion(name, names(kind))}, or the dotted name of a module of your own"


def a_url(kind: str) -> str:
    """The remedy for what is no URL: how one is written."""
    schemes = ", ".join(sorted(_SCHEMES.get(name, name) for name in names(kind)))
    return f"write scheme://..., the scheme being one of {schemes}; or my.module+scheme://... for a module of your own"


def load(kind: str, name: str) -> ModuleType:
    """The module of a plug-in. A name with a dot is a module of somebody else's.

    Raises UnknownPlugin (lists the known ones) or MissingExtra (names the extra to install).
    """
    known = _KNOWN[kind].get(name)
    if known is None and "." not in name:
        raise UnknownPlugin(
            f"no {kind} is called {name!r}",
            remedy=known_are(kind, name),
        )
    module = known.module if known else name
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if known is None and error.name and module.startswith(error.name):
            raise UnknownPlugin(
                f"there is no module {module!r} for a {kind}",
                remedy="check its spelling, and that it is installed or on PYTHONPATH",
            ) from error
        extra = known.extra if known else None
        if extra is None or (error.name or "").startswith("fencepost"):
            raise
        raise MissingExtra(
            f"the {kind} {name!r} needs the library {error.name!r}, which is not installed",
            remedy=as_installed(f'pip install "fencepost[{extra}]"'),
        ) from error


def refused(kind: str, url: str, settings: Mapping[str, object]) -> Mapping[str, ConfigurationError]:
    """What the plug-in of a URL does not take of its own settings, by their names.

    Nothing where it cannot be had, which ``load`` says when it is needed, or where it checks them only when it is made.
    """
    try:
        ask = getattr(load(kind, name_of(kind, url)), "refused", None)
    except ConfigurationError:
        return {}
    found: Mapping[str, ConfigurationError] = ask(url, settings) if ask else {}
    return found


def as_installed(remedy: str) -> str:
    """A remedy with ``pip install "fencepost[...]"`` in it, for this program: a checkout takes its own extras."""
    folder = _checkout()
    return remedy.replace('"fencepost[', f'-e "{folder}[') if folder else remedy


@cache
def _checkout() -> str:
    """The folder that the program was installed from with ``pip install -e``; "" for any other installation."""
    import json
    from importlib import metadata  # it takes its time, and is needed for an error only

    try:
        told = metadata.distribution("fencepost").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return ""
    origin = json.loads(told or "{}")
    return unquote(urlsplit(origin["url"]).path) if origin.get("dir_info", {}).get("editable") else ""


def spoken(url: str) -> str:
    """The URL of the server, without the module of somebody else's that talks to it: "shop.broker+nats://host" is
    "nats://host".
    """
    module, plus, rest = url.partition("+")
    return rest if plus and "." in module and "://" not in module else url


def told(name: str, url: str) -> str:
    """The URL as a relay tells it to the plug-in of this name: one of somebody else's is told its module too.

    The opposite of ``spoken``.
    """
    return f"{name}+{url}" if "." in name and url == spoken(url) else url


def name_of(kind: str, url: str) -> str:
    """The plug-in's name in a URL: the scheme without a driver ("postgresql+asyncpg://..." is "postgresql").

    The dotted name of a module of somebody else's is as it is written. Raises ConfigurationError where the text has no
    scheme.
    """
    scheme, separator, _ = url.partition("://")
    if url in ALONE:
        scheme, separator = url.rstrip(":"), ":"
    if not separator or not scheme:
        raise ConfigurationError(
            f"a text without :// is not a {kind} URL",
            remedy=a_url(kind),
        )
    name = scheme.partition("+")[0]
    return name if "." in name else _SYNONYMS.get(name.lower(), name.lower())
