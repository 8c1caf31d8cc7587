"""settings.FENCEPOST: the sections of a fencepost.toml, except that the database is one of settings.DATABASES.

Two keys and a section are Django's own: ``using`` in "database" is the alias of the database where messages are added
and the relay reads, unless a call or a command names another one; "outbox" has the options of ``fencepost.Outbox``.
Neither the environment nor a fencepost.toml is read, and ``${...}`` stays as it is: a settings module is a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.utils.module_loading import import_string

from fencepost.config import Config, made
from fencepost.django.addresses import url_of
from fencepost.django.encoding import DJANGO_JSON
from fencepost.drivers import django as driver
from fencepost.errors import ConfigurationError
from fencepost.newmessage import Encoder
from fencepost.sql.outbox import Versions, add_statements
from fencepost.words import suggestion

ORIGIN = "settings.FENCEPOST"
_OUTBOX = ("encoder", "max_bytes", "versions")
_UNQUOTABLE = '"`%'
_ANY_RELAY = {"relay": {"name": "any"}, "broker": {"url": "memory://any"}}
_ANY_DATABASE = {"url": "memory://any"}


@dataclass(frozen=True, slots=True)
class Names:
    """How the tables are called. ``marked``: settled rows stay."""

    schema: str | None
    prefix: str
    marked: bool = False

    def table(self, name: str) -> str:
        """A table's name as Django's models have it (``db_table``)."""
        if not self.schema:
            return f"{self.prefix}{name}"
        alias = _known(str(_section("database").get("using") or DEFAULT_DB_ALIAS))
        quote = connections[alias].ops.quote_name
        return f"{quote(self.schema)}.{quote(self.prefix + name)}"


def names() -> Names:
    """What "database" says of the names of the tables. Raises ConfigurationError."""
    section = _section("database")
    schema = section.get("schema")
    if schema is not None and (not isinstance(schema, str) or set(schema) & set(_UNQUOTABLE)):
        raise ConfigurationError(
            f"[database] schema ({ORIGIN}) is {schema!r}", remedy='it must be a text without ", ` and % in Django'
        )
    return Names(schema, str(section.get("prefix") or "fencepost_"), section.get("settle") == "mark")


def default_alias() -> str:
    """The database of messages where none is named: ``using``, or else the one that the routers choose."""
    named = _section("database").get("using")
    if named is not None:
        return _known(str(named))
    from fencepost.django.models import PendingMessage

    return str(router.db_for_write(PendingMessage))


def outbox_options() -> dict[str, Any]:
    """The options of ``fencepost.Outbox``. Raises ConfigurationError."""
    section = dict(_section("outbox"))
    for key in section:
        if key not in _OUTBOX:
            raise ConfigurationError(f"unknown key [outbox] {key} ({ORIGIN})", remedy=suggestion(key, _OUTBOX))
    if (versions := section.get("versions", "counter")) not in get_args(Versions):
        raise ConfigurationError(
            f"[outbox] versions ({ORIGIN}) is {versions!r}", remedy=f"use one of {', '.join(get_args(Versions))}"
        )
    found = names()
    return {**section, "schema": found.schema, "prefix": found.prefix, "encoder": _encoder(section.get("encoder"))}


def config(alias: str) -> Config:
    """The configuration of a relay for one of settings.DATABASES. Raises ConfigurationError, or several of them.

    Outboxes in several databases are several relays: that of "default" has the name in "relay", that of any other
    alias has the alias behind it.
    """
    return _made(alias, {})


def check() -> None:
    """Raise ConfigurationError, or several, for what cannot work.

    Who only adds messages may leave out both the relay and the broker.
    """
    alias = default_alias()
    _check_writer(alias)
    adds_only = not {"relay", "broker"} & set(_sections())
    anything = _ANY_RELAY | {"database": {**_section("database"), **_ANY_DATABASE}}
    _made(alias, anything if adds_only else {})


def advice() -> list[tuple[str, str]]:
    """What works, and is better done otherwise: what, and the remedy."""
    alias = default_alias()
    connection = connections[alias]
    charset = (connection.settings_dict.get("OPTIONS") or {}).get("charset", "utf8mb4")
    if connection.vendor != driver.MYSQL or charset == "utf8mb4":
        return []
    what = f"settings.DATABASES[{alias!r}]['OPTIONS']['charset'] is {charset!r}, which lacks most characters"
    return [(f"{what}: without a strict sql_mode such keys and headers are stored as '?'", "leave it out: utf8mb4")]


def _check_writer(alias: str) -> None:
    options, found = outbox_options(), names()
    versions = options.get("versions", "counter")
    dialect = driver.dialect(connections[alias].vendor)
    try:
        add_statements(dialect, schema=found.schema, prefix=found.prefix, versions=versions)
    except ConfigurationError as error:
        raise ConfigurationError(f"[outbox] ({ORIGIN}) has {error.what}", remedy=error.remedy) from error


def _made(alias: str, instead: Mapping[str, Any]) -> Config:
    names()
    sections = {**{name: _section(name) for name in _sections() if name != "outbox"}, **instead}
    database = {key: value for key, value in sections.get("database", {}).items() if key != "using"}
    places = {} if database.get("url") else {"database": f"settings.DATABASES[{alias!r}]"}
    database["url"] = database.get("url") or url_of(connections[_known(alias)])
    relay = dict(sections.get("relay", {}))
    if alias != DEFAULT_DB_ALIAS and isinstance(relay.get("name"), str):
        relay["name"] += f"-{alias.lower().replace('_', '-')}"
    return made({**sections, "database": database, "relay": relay}, origin=ORIGIN, places=places)


def _sections() -> Mapping[str, Any]:
    found = getattr(settings, "FENCEPOST", {})
    if not isinstance(found, Mapping):
        raise ConfigurationError(f"{ORIGIN} is {type(found).__name__}", remedy="write a dict of sections")
    return found


def _section(name: str) -> Mapping[str, Any]:
    found = _sections().get(name, {})
    if not isinstance(found, Mapping):
        raise ConfigurationError(
            f"[{name}] ({ORIGIN}) is {type(found).__name__}", remedy=f'write a dict: {{"{name}": {{...}}}}'
        )
    return found


def _known(alias: str) -> str:
    if alias not in connections:
        raise ConfigurationError(
            f"settings.DATABASES has no {alias!r}", remedy=suggestion(alias, [str(each) for each in connections])
        )
    return alias


def _encoder(given: object) -> Encoder:
    """An Encoder, or where one is to be found; Django's JSON where nothing is given."""
    found = import_string(given) if isinstance(given, str) else given
    if found is None:
        return DJANGO_JSON
    if not isinstance(found, Encoder):
        raise ConfigurationError(
            f"[outbox] encoder ({ORIGIN}) is {given!r}",
            remedy="write a fencepost.outbox.Encoder, or the dotted name of one",
        )
    return found
