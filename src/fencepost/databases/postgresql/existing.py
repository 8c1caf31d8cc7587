"""An existing table in PostgreSQL: what it looks like, and a source that reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from fencepost.databases.postgresql.connection import Outbox
from fencepost.databases.postgresql.source import PostgresqlSource
from fencepost.existing import ExistingTable
from fencepost.ports import DatabaseOptions
from fencepost.sql.existing import alike
from fencepost.sql.existing.checks import Checked
from fencepost.sql.existing.columns import Column, Described, Index, Kind
from fencepost.sql.existing.source import ExistingSource, Looked

_COLUMNS = """
    SELECT attname, typname, format_type(atttypid, NULL), NOT attnotnull
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
    WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
"""
_INDEXES = """
    SELECT ARRAY(SELECT attname::text FROM unnest(indkey) WITH ORDINALITY AS k (number, place)
                 JOIN pg_attribute ON attrelid = indrelid AND attnum = number ORDER BY place),
           indisunique, coalesce(pg_get_expr(indpred, indrelid), '')
    FROM pg_index WHERE indrelid = to_regclass($1) AND indisvalid
"""
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("int2", "int4", "int8"), "integer"),
    **dict.fromkeys(("text", "varchar", "bpchar"), "text"),
    **dict.fromkeys(("json", "jsonb"), "json"),
    **dict.fromkeys(("timestamp", "timestamptz"), "time"),
    "uuid": "uuid",
    "bytea": "binary",
}


class _TableSource(PostgresqlSource):
    """The same source, less what only Fencepost's own tables have."""

    def __init__(self, outbox: Outbox, table: ExistingTable) -> None:
        super().__init__(outbox)
        self._table = table

    def _needed(self) -> dict[str, tuple[str, ...]]:
        t, marked = self._outbox.tables, self._outbox.options.settle == "mark"
        rights: dict[str, tuple[str, ...]] = {}
        rights[_name(self._outbox, self._table)] = ("SELECT", "UPDATE") if marked else ("SELECT", "UPDATE", "DELETE")
        beside = [] if self._table.parked is not None else [t.parked]
        return rights | {self._outbox.quoted(table): ("SELECT", "INSERT", "UPDATE") for table in beside}

    async def _check_sequence(self, connection: Any) -> str:
        return ""


def existing_source(options: DatabaseOptions, table: ExistingTable) -> ExistingSource:
    """A source that reads the table."""
    outbox = Outbox(options)

    async def look() -> Looked:
        found = await outbox.on_one(lambda connection: _described(connection, outbox, table))
        source = _TableSource(outbox.described(found), table)
        return Looked(source, Checked(outbox.place, table, found, outbox.dialect).warnings())

    return ExistingSource(table, look)


def _name(outbox: Outbox, table: ExistingTable) -> str:
    return outbox.quoted(sa.Table(table.table, sa.MetaData(), schema=outbox.options.schema))


async def _described(connection: Any, outbox: Outbox, table: ExistingTable) -> Described:
    name = _name(outbox, table)
    columns = [
        Column(name, _KINDS.get(kind, "other"), declared, nullable)
        for name, kind, declared, nullable in await connection.fetch(_COLUMNS, name)
    ]
    rows = await connection.fetch(_INDEXES, name)
    indexes = tuple(Index(tuple(names), unique, where) for names, unique, where in rows)
    found = Described({column.name: column for column in columns}, indexes)
    asked = alike.question(table, found, outbox.dialect, outbox.options.schema)
    return replace(found, alike=alike.pairs(await connection.fetch(asked))) if asked else found
