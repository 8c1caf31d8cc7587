"""From one of settings.DATABASES to the URL by which the relay, with a driver of its own, finds the same database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.db.backends.base.base import BaseDatabaseWrapper
from sqlalchemy.engine import URL

from fencepost.django.mysql_address import mysql_url
from fencepost.errors import ConfigurationError

_FOR_EVERY_DRIVER = {
    "application_name",
    "krbsrvname",
    "options",
    "passfile",
    "service",
    "servicefile",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslpassword",
    "sslrootcert",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "target_session_attrs",
}
"""Keys of OPTIONS that libpq knows and that say which server, or how it is spoken to. The rest is about Django's
driver."""


def url_of(connection: BaseDatabaseWrapper) -> str:
    """The URL, with the password that the settings have.

    Raises ConfigurationError for other kinds of databases, and for what a URL cannot say.
    """
    make = _URLS.get(connection.vendor)
    place = f"settings.DATABASES[{connection.alias!r}]"
    if make is None:
        raise ConfigurationError(
            f"{place} is a {connection.vendor!r}, which cannot hold an outbox",
            remedy=f"use one of {', '.join(sorted(_URLS))}, or name another alias",
        )
    return make(connection.settings_dict, place)


def _postgresql(settings: Mapping[str, Any], _: str) -> str:
    options = dict(settings.get("OPTIONS") or {})
    terms = {key: str(value) for key, value in options.items() if key in _FOR_EVERY_DRIVER}
    if role := options.get("assume_role"):
        terms["role"] = str(role)
    hosts = str(settings.get("HOST") or "")
    if hosts.startswith("/"):  # a folder with the server's socket
        terms |= {"host": hosts} | ({"port": str(settings["PORT"])} if settings.get("PORT") else {})
        hosts = ""
    servers = ",".join(_servers(hosts, str(settings.get("PORT") or "")))
    login = _login(str(settings.get("USER") or ""), str(settings.get("PASSWORD") or ""))
    query = f"?{urlencode(terms, quote_via=quote)}" if terms else ""
    return f"postgresql://{login}{servers}/{quote(str(settings.get('NAME') or ''), safe='')}{query}"


def _servers(hosts: str, ports: str) -> Iterator[str]:
    """host:port of each; one port may stand for all."""
    given, numbers = hosts.split(",") if hosts else [], ports.split(",")
    for place, host in enumerate(given):
        port = numbers[place] if len(numbers) == len(given) else numbers[0]
        yield (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")


def _login(user: str, password: str) -> str:
    if not user:
        return ""
    return f"{quote(user, safe='')}{':' + quote(password, safe='') if password else ''}@"


def _sqlite(settings: Mapping[str, Any], _: str) -> str:
    return URL.create("sqlite", database=os.fspath(settings["NAME"])).render_as_string()


_URLS: dict[str, Callable[[Mapping[str, Any], str], str]] = {
    "mysql": mysql_url,
    "postgresql": _postgresql,
    "sqlite": _sqlite,
}
"""By Django's word for the kind of a database."""
