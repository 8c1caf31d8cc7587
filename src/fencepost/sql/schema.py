"""The tables as DDL that may be run twice, printed by SQLAlchemy from the one description in ``tables``."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex, CreateSchema, CreateTable, ExecutableDDLElement

from fencepost.sql.tables import Tables, storage


def all_tables(t: Tables) -> list[sa.Table]:
    """Every table of an outbox, sorted by name. Their metadata may hold tables of somebody else."""
    return sorted((t.outbox, t.entity, t.parked, t.lease, t.lane), key=lambda table: table.name)


def quoted(table: sa.Table, dialect: Dialect) -> str:
    """A table's name as it is written in a statement."""
    return dialect.identifier_preparer.format_table(table)


def schema_statement(t: Tables, dialect: Dialect) -> str | None:
    """CREATE SCHEMA, where the tables have one."""
    name = t.outbox.schema
    return None if name is None else _text(CreateSchema(name, if_not_exists=True), dialect)


def table_statements(table: sa.Table, dialect: Dialect) -> list[str]:
    """CREATE TABLE, how PostgreSQL is to store it, and its indexes."""
    indexes = sorted(table.indexes, key=lambda index: str(index.name))
    stored = storage(table) if dialect.name == "postgresql" else None
    elements: list[ExecutableDDLElement] = [
        CreateTable(table, if_not_exists=True),
        *([] if stored is None else [stored]),
        *(CreateIndex(index, if_not_exists=True) for index in indexes),
    ]
    return [_text(element, dialect) for element in elements]


def statements(t: Tables, dialect: Dialect) -> Sequence[str]:
    """Everything, in order."""
    first = schema_statement(t, dialect)
    return [
        *([first] if first else []),
        *(text for table in all_tables(t) for text in table_statements(table, dialect)),
    ]


def _text(element: ExecutableDDLElement, dialect: Dialect) -> str:
    lines = str(element.compile(dialect=dialect)).strip().splitlines()
    return "\n".join(line.rstrip().replace("\t", "    ") for line in lines if line.strip())
