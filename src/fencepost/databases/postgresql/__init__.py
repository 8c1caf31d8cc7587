"""PostgreSQL as an outbox, on asyncpg."""

from __future__ import annotations

from fencepost.databases.postgresql.schema import PostgresqlSchema
from fencepost.databases.postgresql.session import PostgresqlSession
from fencepost.databases.postgresql.source import PostgresqlSource
from fencepost.ports import DatabaseOptions

__all__ = ["PostgresqlSchema", "PostgresqlSession", "PostgresqlSource", "schema", "source"]


def source(options: DatabaseOptions) -> PostgresqlSource:
    """The plug-in's factory for sources."""
    return PostgresqlSource(options)


def schema(options: DatabaseOptions) -> PostgresqlSchema:
    """The plug-in's factory for schemas."""
    return PostgresqlSchema(options)
