"""SQLite as an outbox, on aiosqlite."""

from __future__ import annotations

from fencepost.databases.sqlite.schema import SqliteSchema
from fencepost.databases.sqlite.session import SqliteSession
from fencepost.databases.sqlite.source import SqliteSource
from fencepost.ports import DatabaseOptions

__all__ = ["SqliteSchema", "SqliteSession", "SqliteSource", "schema", "source"]


def source(options: DatabaseOptions) -> SqliteSource:
    """The plug-in's factory for sources."""
    return SqliteSource(options)


def schema(options: DatabaseOptions) -> SqliteSchema:
    """The plug-in's factory for schemas."""
    return SqliteSchema(options)
