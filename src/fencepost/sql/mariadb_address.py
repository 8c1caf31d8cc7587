"""Where a MariaDB or MySQL is: a URL, as the arguments of asyncmy's ``connect``, and how its sessions are set up."""

from __future__ import annotations

import math
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from fencepost.errors import ConfigurationError
from fencepost.sql.address import PORT_MAX, check_login, check_options
from fencepost.sql.tables import MARIADB

PORT = 3306

_WRITE = "write mariadb://user@host:port/database"
_TLS_FILES = {"ssl_ca": "ca", "ssl_capath": "capath", "ssl_cert": "cert", "ssl_key": "key"}
_OPTIONS = ("ssl", "ssl_check_hostname", "unix_socket", *_TLS_FILES)


def connect_arguments(url: str) -> dict[str, Any]:
    """Keyword arguments for asyncmy. What other drivers know of a URL's parameters is left out.

    TLS: ``ssl=true``, or any of ``ssl_ca``, ``ssl_capath``, ``ssl_cert``, ``ssl_key`` (files) and
    ``ssl_check_hostname=false``. Raises ConfigurationError where it is not the URL of a database in a MariaDB or MySQL.
    """
    parts = _parsed(url)
    arguments: dict[str, Any] = {
        "host": parts.host or "127.0.0.1",
        "port": parts.port or PORT,
        "user": parts.username,
        "password": parts.password or "",
        "database": parts.database,
        "unix_socket": parts.query.get("unix_socket"),
        "ssl": _tls(parts),
        "charset": "utf8mb4",
        "autocommit": True,
        "program_name": "fencepost",
    }
    return {name: value for name, value in arguments.items() if value is not None}


def place_of(url: str) -> str:
    """The server and the database for people to read, without a password."""
    parts = _parsed(url)
    where = f"{parts.host or '127.0.0.1'}:{parts.port or PORT}"
    return f"MariaDB {parts.username + '@' if parts.username else ''}{where}/{parts.database}"


def session_settings(timeout_s: float) -> str:
    """What each of our own connections says first.

    Under READ COMMITTED the server locks the rows that are named and no gaps between them. What the client has given up
    must not live on in the server, nor a transaction of a relay that is paused.
    """
    whole_s = max(1, math.ceil(timeout_s))
    return (
        f"SET SESSION innodb_lock_wait_timeout = {whole_s}, lock_wait_timeout = {whole_s}"
        f" /*M! , max_statement_time = {timeout_s:.3f}, idle_transaction_timeout = {whole_s} */"
        " /*!80000 , information_schema_stats_expiry = 0 */"
    )


ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"


def _parsed(url: str) -> URL:
    check_login(url)
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigurationError("this is not the URL of a MariaDB or MySQL", remedy=_WRITE) from error
    if parts.drivername.partition("+")[0].lower() not in MARIADB:
        raise ConfigurationError("not the URL of a MariaDB or MySQL", remedy=_WRITE)
    if not parts.database:
        raise ConfigurationError("the URL names no database of the MariaDB or MySQL", remedy=_WRITE)
    if not 0 < (parts.port or PORT) <= PORT_MAX:
        raise ConfigurationError(f"{parts.port} is no port", remedy=_WRITE)
    check_options(parts.query, _OPTIONS)
    return parts


def _tls(parts: URL) -> dict[str, Any] | None:
    files = {name: parts.query[key] for key, name in _TLS_FILES.items() if key in parts.query}
    if "key" in files and "cert" not in files:
        raise ConfigurationError("the URL has ssl_key without ssl_cert", remedy="give both, or none")
    wanted = str(parts.query.get("ssl", "")).lower() in {"1", "true", "yes", "on"}
    if not files and not wanted:
        return None
    checked = str(parts.query.get("ssl_check_hostname", "true")).lower() not in {"0", "false", "no", "off"}
    return {**files, "check_hostname": checked}
