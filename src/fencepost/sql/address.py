"""What is wrong with a URL, where the driver would say it with a traceback, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from fencepost.errors import ConfigurationError
from fencepost.words import meant, suggestion

PORT_MAX = 65_535


def check_ports(url: str) -> None:
    """Raise ConfigurationError where a port of postgresql://user@host:port,host:port/... is no number.

    The text is not repeated: of a password with a "/" in it, it would be the beginning.
    """
    servers = url.partition("://")[2].partition("?")[0].partition("/")[0].rpartition("@")[2]
    for server in servers.split(","):
        _, colon, port = server.rpartition("]")[2].partition(":")
        if colon and port and not (port.isdecimal() and 0 < int(port) <= PORT_MAX):
            raise ConfigurationError(
                "what stands behind the host in the URL is no port",
                remedy="write postgresql://user@host:5432/database; in a password %2F is /, %3F is ?, %40 is @",
            )


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
        raise ConfigurationError(f"{url!r} is not the URL of a SQLite file", remedy="write sqlite:///PATH") from error
    if parsed.host:
        name = f"{parsed.host}/{parsed.database or ''}"
        raise ConfigurationError(
            f"{url!r} names the host {parsed.host!r}, and SQLite has none",
            remedy=f"write three slashes: sqlite:///{name}; four for a path from the root: sqlite:////{name}",
        )
    return parsed.database or ""
