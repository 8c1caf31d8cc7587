"""MariaDB and MySQL as an outbox, on asyncmy."""

from __future__ import annotations

from fencepost.databases.mariadb.connection import Outbox
from fencepost.databases.mariadb.existing import existing_source
from fencepost.databases.mariadb.schema import MariadbSchema
from fencepost.databases.mariadb.session import MariadbSession
from fencepost.databases.mariadb.source import MariadbSource
from fencepost.ports import DatabaseOptions
from fencepost.sql.existing.source import ExistingSource

__all__ = ["OFFERS", "MariadbSchema", "MariadbSession", "MariadbSource", "schema", "source"]

OFFERS = ("mark", "existing")
"""What not every database has: settled rows that stay, and outboxes in tables of somebody else."""


def source(options: DatabaseOptions) -> MariadbSource | ExistingSource:
    """The plug-in's factory for sources."""
    return MariadbSource(Outbox(options)) if options.table is None else existing_source(options, options.table)


def schema(options: DatabaseOptions) -> MariadbSchema:
    """The plug-in's factory for schemas."""
    return MariadbSchema(options)
