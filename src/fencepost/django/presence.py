"""What a database has of an outbox already, where a migration must not say a statement twice."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from django.db.backends.base.base import BaseDatabaseWrapper
from sqlalchemy.engine import Dialect

from fencepost.drivers.django import MYSQL
from fencepost.sql import schema as ddl
from fencepost.sql.tables import Tables

_SCHEMA = "SELECT nspname FROM pg_namespace WHERE nspname = %s"
_HERE = "WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s"
_TABLE = f"SELECT TABLE_NAME FROM information_schema.TABLES {_HERE}"  # noqa: S608 - no text of anybody's
_COLUMNS = f"SELECT COLUMN_NAME FROM information_schema.COLUMNS {_HERE}"  # noqa: S608
_INDEXES = f"SELECT INDEX_NAME FROM information_schema.STATISTICS {_HERE}"  # noqa: S608


def has_schema(connection: BaseDatabaseWrapper, name: str) -> bool:
    """Whether PostgreSQL has a schema. MariaDB's is a database, and who may not create it creates no tables there."""
    return connection.vendor == "postgresql" and bool(_names(connection, _SCHEMA, name))


def may_be_there(connection: BaseDatabaseWrapper, table: sa.Table) -> bool:
    """False where a migration died after it had dropped the table: MariaDB commits each DDL statement by itself."""
    return connection.vendor != MYSQL or bool(_names(connection, _TABLE, table.schema, table.name))


def lacking(connection: BaseDatabaseWrapper, t: Tables, dialect: Dialect) -> Mapping[str, str]:
    """What an outbox lacks for settled rows that stay, by name, and the DDL that adds it.

    MariaDB is asked, because it may have half of it; elsewhere a migration does all or nothing.
    """
    if connection.vendor != MYSQL:
        return ddl.additions(t, dialect)
    found = [_names(connection, query, t.outbox.schema, t.outbox.name) for query in (_COLUMNS, _INDEXES)]
    return ddl.lacking(t, dialect, *found)


def _names(connection: BaseDatabaseWrapper, query: str, *values: str | None) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return [str(name) for (name,) in cursor.fetchall()]
