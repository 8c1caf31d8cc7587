"""An existing table in MariaDB or MySQL: what it looks like, and a source that reads it."""

from __future__ import annotations

from dataclasses import replace

from fencepost.databases.mariadb.connection import Connection, Outbox, Rows
from fencepost.databases.mariadb.source import MariadbSource
from fencepost.errors import FixError, SchemaMissing, raise_together
from fencepost.existing import ExistingTable
from fencepost.ports import DatabaseOptions
from fencepost.sql.existing import alike
from fencepost.sql.existing.checks import Checked
from fencepost.sql.existing.columns import Column, Described, Index, Kind
from fencepost.sql.existing.source import ExistingSource, Looked
from fencepost.sql.faults_mariadb import APPLY

_COLUMNS = """
    SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?
"""
_INDEXES = """
    SELECT INDEX_NAME, COLUMN_NAME, NON_UNIQUE FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX
"""
_ENGINE = "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?"

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), "integer"),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"), "text"),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "binary"),
    **dict.fromkeys(("datetime", "timestamp"), "time"),
    "json": "json",
    "uuid": "uuid",
}


class _TableSource(MariadbSource):
    """The same source, less what only Fencepost's own tables have."""

    def __init__(self, outbox: Outbox, table: ExistingTable) -> None:
        super().__init__(outbox)
        self._table = table

    async def _check_tables(self, connection: Connection) -> None:
        place, name = self._outbox.place, self._table.table
        engine = await connection.first(_ENGINE, self._outbox.database, name)
        errors: list[FixError] = []
        if engine is None or str(engine[0]).lower() != "innodb":
            what = f"{place}: the table {name} has the engine {engine and engine[0]}, which has no transactions"
            errors.append(FixError(what, remedy=f"ALTER TABLE `{name}` ENGINE = InnoDB"))
        parked = self._outbox.tables.parked.name
        if self._table.parked is None and await connection.first(_ENGINE, self._outbox.database, parked) is None:
            errors.append(SchemaMissing(f"{place} has no table {parked}", remedy=APPLY))
        raise_together(errors, place)

    def _written(self) -> list[str]:
        texts = super()._written()
        return [text for text in texts[:-1] if text]


def existing_source(options: DatabaseOptions, table: ExistingTable) -> ExistingSource:
    """A source that reads the table."""
    outbox = Outbox(options)

    async def look() -> Looked:
        found = await outbox.on_one(lambda connection: _described(connection, outbox, table))
        source = _TableSource(outbox.described(found), table)
        warnings = Checked(outbox.place, table, found, outbox.dialect).warnings()
        return Looked(source, [*warnings, *await source.advice()])

    return ExistingSource(table, look)


async def _described(connection: Connection, outbox: Outbox, table: ExistingTable) -> Described:
    place = (outbox.database, table.table)
    columns = [
        Column(str(name), _KINDS.get(str(kind).lower(), "other"), str(declared), nullable == "YES")
        for name, kind, declared, nullable in await connection.rows(_COLUMNS, *place)
    ]
    rows = await connection.rows(_INDEXES, *place)
    found = Described({column.name: column for column in columns}, _indexes(rows))
    asked = alike.question(table, found, outbox.dialect, outbox.options.schema)
    return replace(found, alike=alike.pairs(await connection.rows(asked))) if asked else found


def _indexes(rows: Rows) -> tuple[Index, ...]:
    named: dict[str, list[str]] = {}
    unique = {str(name): not int(repeats) for name, _, repeats in rows}
    for name, column, _ in rows:
        named.setdefault(str(name), []).append(str(column))
    return tuple(Index(tuple(columns), unique[name], name=name) for name, columns in named.items())
