"""What is wrong with a URL, where the driver would say it with a traceback, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from fencepost.errors import ConfigurationError
from fencepost.servers import ESCAPES, check_password
from fencepost.words import meant, suggestion

PORT_MAX = 65_535


def check_ports(url: str) -> None:
    """Raise ConfigurationError where a port of postgresql://user@host:port,host:port/... is no number, or where a
    password ends before its end.

    The text is not repeated: of a password with a "/" in it, it would be the beginning.
    """
    check_password(url, in_options=True)
    servers = url.partition("://")[2].partition("?")[0].partition("/")[0].rpartition("@")[2]
    for server in servers.split(","):
        _, colon, port = server.rpartition("]")[2].partition(":")
        if colon and port and not (port.isdecimal() and 0 < int(port) <= PORT_MAX):
            raise ConfigurationError(
                "what stands behind the host in the URL is no port",
                remedy="write postgresql://user@host:5432/database; in a password %2F is /, %3F is ?, %40 is @",
            )


def check_login(url: str) -> None:
    """Raise ConfigurationError where a password ends before its end, as SQLAlchemy reads URLs: at an @ in it.

    The text is not repeated: it has the rest of the password in it.
    """
    login, at, rest = url.partition("://")[2].partition("@")
    where, _, query = rest.partition("?")
    names = "&".join(option.partition("=")[0] for option in query.split("&"))
    if at and ":" in login.partition("/")[0] and "@" in f"{where}{names}":
        raise ConfigurationError("the URL has one @ too many, as if the password had it in it", remedy=ESCAPES)


def check_options(given: Iterable[str], known: Collection[str]) -> None:
    """Raise ConfigurationError for an option of a URL that was meant to be one of ours: those of other drivers pass."""
    for name in given:
        if meant(name, known):
            raise ConfigurationError(f"the URL has an option {name!r}", remedy=suggestion(name, known))


def file_in(url: str) -> str:
    """The file that sqlite:///PATH names, "" where it names none. Raises ConfigurationError where it names a host."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigurationError("the URL is not that of a SQLite file", remedy="write sqlite:///PATH") from error
    if parsed.host:
        name = f"{parsed.host}/{parsed.database or ''}" if "@" not in url else "PATH"
        raise ConfigurationError(
            "the URL names a host, and SQLite has none",
            remedy=f"write three slashes: sqlite:///{name}; four for a path from the root: sqlite:////{name}",
        )
    return parsed.database or ""
