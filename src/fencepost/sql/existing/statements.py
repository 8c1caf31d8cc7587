"""The statements of an existing table, compiled for one dialect once the table has been seen."""

from __future__ import annotations

from sqlalchemy.engine import Dialect

from fencepost.errors import ConfigurationError
from fencepost.ports import DatabaseOptions
from fencepost.sql.existing.checks import Checked
from fencepost.sql.existing.columns import Described
from fencepost.sql.existing.mariadb import MariadbExisting
from fencepost.sql.existing.postgresql import PostgresqlExisting
from fencepost.sql.existing.sqlite import SqliteExisting
from fencepost.sql.existing.texts import ExistingTexts
from fencepost.sql.source import SourceStatements
from fencepost.sql.tables import Tables

_TEXTS: dict[str, type[ExistingTexts]] = {
    "mariadb": MariadbExisting,
    "mysql": MariadbExisting,
    "postgresql": PostgresqlExisting,
    "sqlite": SqliteExisting,
}


def existing_statements(
    place: str, options: DatabaseOptions, t: Tables, found: Described, dialect: Dialect
) -> SourceStatements:
    """Check the table and write its statements. Raises FixError for what a person must change."""
    table = options.table
    if table is None:
        raise ConfigurationError("no existing table is named", remedy="add a section [existing]")
    Checked(place, table, found, dialect).must_do()
    texts = _TEXTS[dialect.name](t, table, found, dialect, marked=options.settle == "mark")
    return SourceStatements(**texts.all())
