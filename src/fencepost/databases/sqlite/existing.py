"""An existing table in SQLite: what it looks like, and a source that reads it."""

from __future__ import annotations

import re
from dataclasses import replace

import aiosqlite

from fencepost.databases.sqlite.connection import Outbox, first
from fencepost.databases.sqlite.source import SqliteSource
from fencepost.existing import ExistingTable
from fencepost.ports import DatabaseOptions
from fencepost.sql.existing import alike
from fencepost.sql.existing.checks import Checked
from fencepost.sql.existing.columns import Column, Described, Index, Kind
from fencepost.sql.existing.source import ExistingSource, Looked
from fencepost.sql.existing.sqlite import ROWID

_COLUMNS = 'SELECT name, type, "notnull", pk FROM pragma_table_xinfo(?)'
_INDEXES = """
    SELECT list.name, list."unique", coalesce(made.sql, '')
    FROM pragma_index_list(?) AS list LEFT JOIN sqlite_master AS made ON made.name = list.name
"""
_INDEXED = "SELECT name FROM pragma_index_info(?) ORDER BY seqno"
_MADE_BY = "SELECT sql FROM sqlite_master WHERE type = 'table' AND lower(name) = lower(?)"
_WITHOUT_ROWID = re.compile(r"\bWITHOUT\s+ROWID\b", re.IGNORECASE)
_WHERE = re.compile(r"\bWHERE\b(.*)\Z", re.IGNORECASE | re.DOTALL)

_KINDS: tuple[tuple[str, Kind], ...] = (
    ("INT", "integer"),
    ("UUID", "uuid"),
    ("JSON", "json"),
    ("CHAR", "text"),
    ("TEXT", "text"),
    ("CLOB", "text"),
    ("BLOB", "binary"),
    ("DATE", "time"),
    ("TIME", "time"),
)


class _TableSource(SqliteSource):
    """The same source, less what only Fencepost's own tables have."""

    async def _check_positions(self, connection: aiosqlite.Connection) -> None:
        """One that comes back is another message: its id tells."""


def existing_source(options: DatabaseOptions, table: ExistingTable) -> ExistingSource:
    """A source that reads the table."""
    outbox = Outbox(options)

    async def look() -> Looked:
        found = await outbox.on_one(lambda connection: _described(connection, outbox, table))
        source = _TableSource(outbox.described(found))
        warnings = Checked(outbox.place, table, found, outbox.dialect).warnings()
        return Looked(source, [*warnings, *await source.advice()])

    return ExistingSource(table, look)


async def _described(connection: aiosqlite.Connection, outbox: Outbox, table: ExistingTable) -> Described:
    made_by = await first(connection, _MADE_BY, table.table)
    if made_by is None:
        return Described({}, ())
    rows = list(await connection.execute_fetchall(_COLUMNS, (table.table,)))
    columns = {name: Column(name, _kind(kind), kind, not fixed and not key) for name, kind, fixed, key in rows}
    keys = [name for name, _, _, key in rows if key]
    indexes = [await _index(connection, *row) for row in await connection.execute_fetchall(_INDEXES, (table.table,))]
    if len(keys) == 1:
        indexes.append(Index((keys[0],), unique=True))
    if not _WITHOUT_ROWID.search(made_by[0]):
        columns.setdefault(ROWID, Column(ROWID, "integer", "rowid", nullable=False))
    found = Described(columns, tuple(indexes))
    asked = alike.question(table, found, outbox.dialect, None)
    return replace(found, alike=alike.pairs(await connection.execute_fetchall(asked))) if asked else found


async def _index(connection: aiosqlite.Connection, name: str, unique: int, made_by: str) -> Index:
    columns = await connection.execute_fetchall(_INDEXED, (name,))
    where = _WHERE.search(made_by)
    return Index(tuple(str(column) for (column,) in columns), bool(unique), where[1].strip() if where else "")


def _kind(declared: str) -> Kind:
    """What the declared type hints at."""
    return next((kind for part, kind in _KINDS if part in declared.upper()), "other")
