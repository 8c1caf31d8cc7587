"""PostgreSQL as an outbox, on asyncpg."""

from __future__ import annotations

from fencepost.databases.postgresql.connection import Outbox
from fencepost.databases.postgresql.existing import existing_source
from fencepost.databases.postgresql.schema import PostgresqlSchema
from fencepost.databases.postgresql.session import PostgresqlSession
from fencepost.databases.postgresql.source import PostgresqlSource
from fencepost.ports import DatabaseOptions
from fencepost.sql.existing.source import ExistingSource

__all__ = ["OFFERS", "PostgresqlSchema", "PostgresqlSession", "PostgresqlSource", "schema", "source"]

OFFERS = ("mark", "existing")
"""What not every database has: settled rows that stay, and outboxes in tables of somebody else."""


def source(options: DatabaseOptions) -> PostgresqlSource | ExistingSource:
    """The plug-in's factory for sources."""
    return PostgresqlSource(Outbox(options)) if options.table is None else existing_source(options, options.table)


def schema(options: DatabaseOptions) -> PostgresqlSchema:
    """The plug-in's factory for schemas."""
    return PostgresqlSchema(options)
