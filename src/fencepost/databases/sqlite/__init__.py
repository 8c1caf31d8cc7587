"""SQLite as an outbox, on aiosqlite."""

from __future__ import annotations

from fencepost.databases.sqlite.connection import Outbox
from fencepost.databases.sqlite.existing import existing_source
from fencepost.databases.sqlite.schema import SqliteSchema
from fencepost.databases.sqlite.session import SqliteSession
from fencepost.databases.sqlite.source import SqliteSource
from fencepost.ports import DatabaseOptions
from fencepost.sql.existing.source import ExistingSource

__all__ = ["OFFERS", "SqliteSchema", "SqliteSession", "SqliteSource", "schema", "source"]

OFFERS = ("mark", "existing")
"""What not every database has: settled rows that stay, and outboxes in tables of somebody else."""


def source(options: DatabaseOptions) -> SqliteSource | ExistingSource:
    """The plug-in's factory for sources."""
    return SqliteSource(Outbox(options)) if options.table is None else existing_source(options, options.table)


def schema(options: DatabaseOptions) -> SqliteSchema:
    """The plug-in's factory for schemas."""
    return SqliteSchema(options)
