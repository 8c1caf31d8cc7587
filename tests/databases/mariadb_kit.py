"""A MariaDB for tests: databases of their own, and plain SQL on a connection of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import pymysql

from fencepost.sql.mariadb_address import connect_arguments


def connected(url: str, **more: Any) -> Any:
    """A connection of PyMySQL, in autocommit."""
    known = connect_arguments(url)
    names = ("host", "port", "user", "password", "database", "charset")
    return pymysql.connect(**{name: known[name] for name in names} | {"autocommit": True, "ssl_disabled": True} | more)


def ask(url: str, text: str, *arguments: object) -> list[tuple[Any, ...]]:
    """Rows of a query, or nothing, in a transaction of its own."""
    with closing(connected(url)) as connection, connection.cursor() as cursor:
        cursor.execute(text, arguments or None)
        return list(cursor.fetchall())


@contextmanager
def mariadb_database(url: str, name: str) -> Iterator[str]:
    """The address of a new, empty database, dropped afterwards."""
    ask(url, f"CREATE DATABASE `{name}`")
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{quote(name)}"))
    finally:
        ask(url, f"DROP DATABASE `{name}`")
