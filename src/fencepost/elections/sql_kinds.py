"""Which class knows the database of a URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fencepost.elections.sql_databases import Database, Postgresql, Sqlite
from fencepost.elections.sql_mariadb import Mariadb
from fencepost.elections.sql_other import OtherSql
from fencepost.errors import ConfigurationError
from fencepost.ports import LeaseOptions

_KINDS: Mapping[str, Callable[[LeaseOptions], Database]] = {
    "cockroachdb": OtherSql,
    "mariadb": Mariadb,
    "mssql": OtherSql,
    "mysql": Mariadb,
    "oracle": OtherSql,
    "postgres": Postgresql,
    "postgresql": Postgresql,
    "sqlite": Sqlite,
}


def database(options: LeaseOptions) -> Database:
    """The database of a URL. Raises ConfigurationError, or MissingExtra where the driver is not installed."""
    name = options.url.partition("://")[0].partition("+")[0].lower()
    kind = _KINDS.get(name)
    if kind is None:
        raise ConfigurationError(f"no leases are kept in a {name!r} database", remedy=f"use one of {', '.join(_KINDS)}")
    return kind(options)
