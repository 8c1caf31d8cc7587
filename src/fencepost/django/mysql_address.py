"""From an entry of settings.DATABASES for a MariaDB or MySQL to the URL by which the relay finds the same server.

mysqlclient and PyMySQL take more in OPTIONS than a URL can say. What is about Django's own session is left out, because
the relay sets up its sessions itself; what says which server, or how it is spoken to, is carried over or refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy.engine import URL

from fencepost.errors import ConfigurationError

_SESSION = {
    *("auth_plugin", "autocommit", "binary_prefix", "charset", "client_flag", "collation", "compress"),
    *("connect_timeout", "conv", "cursorclass", "defer_connect", "executemany_fallback", "init_command"),
    *("isolation_level", "local_infile", "local_infile_dir", "max_allowed_packet", "multi_statements", "program_name"),
    *("read_timeout", "sql_mode", "use_unicode", "write_timeout"),
}
_SERVER = {"database", "db", "host", "passwd", "password", "port", "unix_socket", "user"}
_AUTHORITY, _OWN = ("ca", "capath"), ("cert", "key")
_TLS = {
    *("ssl", "ssl_ca", "ssl_cert", "ssl_disabled", "ssl_key", "ssl_mode", "ssl_verify_cert", "ssl_verify_identity"),
}
_UNCHECKED = {"0", "false", "no", "none"}
_ELSEWHERE = re.compile(r"\b(?:set\s+role|use)\b", re.IGNORECASE)

_REMEDY = (
    'say it as HOST, PORT, USER, PASSWORD and NAME, or give the relay an address of its own: "database": {"url":'
    ' "mysql://user@host:3306/name"} in settings.FENCEPOST'
)


def mysql_url(settings: Mapping[str, Any], place: str) -> str:
    """The URL. Raises ConfigurationError for what it cannot say; ``place`` is the entry's name for people."""
    options = dict(settings.get("OPTIONS") or {})
    _refuse_what_a_url_cannot_say(options, f"{place}['OPTIONS']")
    name = options.get("database") or options.get("db") or settings.get("NAME")
    if not name:
        raise ConfigurationError(f"{place} names no database", remedy="say it as NAME")
    socket, host = _server(settings, options, place)
    port = options.get("port") or settings.get("PORT")
    url = URL.create(
        "mysql",
        username=_text(options.get("user") or settings.get("USER")),
        password=_text(options.get("password") or options.get("passwd") or settings.get("PASSWORD")),
        host=_text(host),
        port=int(port) if host and port else None,
        database=str(name),
        query=({"unix_socket": socket} if socket else {}) | _tls(options, f"{place}['OPTIONS']"),
    )
    return url.render_as_string(hide_password=False)


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _refuse_what_a_url_cannot_say(options: Mapping[str, Any], place: str) -> None:
    if unknown := sorted(set(options) - _SESSION - _SERVER - _TLS):
        what = f"{place} has {', '.join(unknown)}, which the relay's own driver would not be told"
        raise ConfigurationError(what, remedy=_REMEDY)
    if found := _ELSEWHERE.search(str(options.get("init_command") or "")):
        raise ConfigurationError(
            f"{place} has an init_command with {found[0].upper()}, which the relay would not run",
            remedy="let the user have it from the beginning (SET DEFAULT ROLE, NAME), or give the relay an address of"
            ' its own: "database": {"url": ...} in settings.FENCEPOST',
        )


def _server(settings: Mapping[str, Any], options: Mapping[str, Any], place: str) -> tuple[str, str]:
    """The server's socket, or else its host."""
    host = str(options.get("host") or settings.get("HOST") or "")
    if host.startswith("/"):
        return host, ""
    socket = str(options.get("unix_socket") or "")
    if socket and host not in {"", "localhost"}:
        raise ConfigurationError(f"{place} names both a host and a unix_socket", remedy="leave one of them out")
    return socket, "" if socket else host or "127.0.0.1"


def _tls(options: Mapping[str, Any], place: str) -> dict[str, str]:
    """The URL's terms. The relay checks the server's certificate wherever Django does."""
    asked = _asked(options, place)
    if asked is None:
        return {}
    check = asked.get("verify_mode")
    unchecked = check is not None and str(int(check) if isinstance(check, bool) else check).lower() in _UNCHECKED
    authority = any(asked.get(name) for name in _AUTHORITY)
    if check is not None and not unchecked and not authority:
        raise ConfigurationError(
            f"{place} wants the server's certificate checked, and names no authority",
            remedy='name it: "ssl": {"ca": FILE}',
        )
    files = _OWN if unchecked else (*_AUTHORITY, *_OWN)
    terms = {f"ssl_{name}": str(asked[name]) for name in files if asked.get(name)}
    if authority and not unchecked and not asked.get("check_hostname", True):
        terms["ssl_check_hostname"] = "false"
    return terms if authority and not unchecked else {"ssl": "true"} | terms


def _asked(options: Mapping[str, Any], place: str) -> dict[str, Any] | None:
    """What the two drivers take in several forms, in one: that of the dict ``ssl``. None: no TLS is asked for."""
    mode = str(options.get("ssl_mode") or "").upper()
    given = options.get("ssl")
    if options.get("ssl_disabled") or mode == "DISABLED":
        return None
    asked = _dict(given, place)
    keywords = {name: options[f"ssl_{name}"] for name in (*_AUTHORITY, *_OWN) if options.get(f"ssl_{name}")}
    if keywords:
        asked |= {"check_hostname": False} | keywords
    if options.get("ssl_verify_cert") is not None:
        asked["verify_mode"] = options["ssl_verify_cert"]
    if mode == "VERIFY_CA":
        asked |= {"verify_mode": True, "check_hostname": False}
    if mode == "VERIFY_IDENTITY" or options.get("ssl_verify_identity"):
        asked |= {"verify_mode": True, "check_hostname": True}
    return asked if asked or given or mode == "REQUIRED" else None


def _dict(given: object, place: str) -> dict[str, Any]:
    if given is None or isinstance(given, bool):
        return {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{place}['ssl'] is a {type(given).__name__}", remedy=f"write a dict; or {_REMEDY}")
    if unknown := sorted(set(given) - {*_AUTHORITY, *_OWN, "check_hostname", "verify_mode"}):
        what = f"{place}['ssl'] has {', '.join(unknown)}, which the relay's own driver would not be told"
        raise ConfigurationError(what, remedy=_REMEDY)
    return dict(given)
