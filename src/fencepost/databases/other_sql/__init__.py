"""Oracle, SQL Server and CockroachDB as an outbox, through SQLAlchemy: compiled, not run.

None of the statements was ever sent to a server of these. Those for CockroachDB, and everything here that is not a
statement, are run against a PostgreSQL by the tests.
"""

from __future__ import annotations

from fencepost.databases.other_sql.schema import OtherSchema
from fencepost.databases.other_sql.session import OtherSession
from fencepost.databases.other_sql.source import OtherSource
from fencepost.ports import DatabaseOptions

__all__ = ["OtherSchema", "OtherSession", "OtherSource", "schema", "source"]


def source(options: DatabaseOptions) -> OtherSource:
    """The plug-in's factory for sources."""
    return OtherSource(options)


def schema(options: DatabaseOptions) -> OtherSchema:
    """The plug-in's factory for schemas."""
    return OtherSchema(options)
