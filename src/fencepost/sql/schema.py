"""The tables as DDL that may be run twice, printed by SQLAlchemy from the one description in ``tables``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateSchema, CreateTable, ExecutableDDLElement

from fencepost.errors import FixError
from fencepost.sql import schema_other
from fencepost.sql.other import UNPARTITIONED
from fencepost.sql.tables import MARIADB, Tables, indexes_of, settled_index, storage


def all_tables(t: Tables) -> list[sa.Table]:
    """Every table of an outbox, sorted by name. Their metadata may hold tables of somebody else."""
    waiting = () if t.existing else (t.outbox, t.entity, t.lane)
    return sorted((*waiting, t.parked, t.lease), key=lambda table: table.name)


def quoted(table: sa.Table, dialect: Dialect) -> str:
    """A table's name as it is written in a statement."""
    return dialect.identifier_preparer.format_table(table)


def schema_statement(name: str | None, dialect: Dialect) -> str | None:
    """CREATE SCHEMA, where there is one that can be made."""
    if name is None or dialect.name in UNPARTITIONED:  # there schemas are users, or rights: somebody else's to make
        return None
    return _text(CreateSchema(name, if_not_exists=True), dialect)


def table_statements(table: sa.Table, dialect: Dialect) -> list[str]:
    """CREATE TABLE, how PostgreSQL is to store it, and its indexes."""
    if dialect.name in UNPARTITIONED:
        return schema_other.table_statements(table, dialect)
    own = indexes_of(table, dialect)
    if dialect.name in MARIADB:
        return [_with_indexes(_text(CreateTable(table, if_not_exists=True), dialect), own, dialect)]
    stored = storage(table) if dialect.name == "postgresql" else None
    elements: list[ExecutableDDLElement] = [
        CreateTable(table, if_not_exists=True),
        *([] if stored is None else [stored]),
        *(CreateIndex(index, if_not_exists=True) for index in own),
    ]
    return [_text(element, dialect) for element in elements]


def statements(t: Tables, dialect: Dialect) -> Sequence[str]:
    """Everything, in order."""
    first = schema_statement(t.outbox.schema, dialect)
    return [
        *([first] if first else []),
        *(text for table in all_tables(t) for text in _from_any_state(table, t, dialect)),
    ]


def _from_any_state(table: sa.Table, t: Tables, dialect: Dialect) -> list[str]:
    """Where the database can do that: also what an outbox lacks that was made for settled rows that are deleted."""
    made = table_statements(table, dialect)
    if table is t.outbox and dialect.name == "postgresql":
        added = [text for name, text in additions(t, dialect).items() if "." in name]
        return [made[0], *(text.replace(" ADD COLUMN ", " ADD COLUMN IF NOT EXISTS ") for text in added), *made[1:]]
    return made


def additions(t: Tables, dialect: Dialect) -> Mapping[str, str]:
    """What the outbox has only where settled rows stay: names ("table.column", "index") and the DDL that adds each."""
    if "settled_at" not in t.outbox.c:
        return {}
    column, index = t.outbox.c.settled_at, settled_index(t.outbox)
    columns = {each.name for each in t.outbox.columns} - {column.name}
    return incomplete(t.outbox, dialect, columns, {str(each.name) for each in t.outbox.indexes} - {str(index.name)})


def lacking(t: Tables, dialect: Dialect, columns: Collection[str], indexes: Collection[str]) -> Mapping[str, str]:
    """Those of the additions that an outbox with these columns and indexes lacks."""
    there = {f"{t.outbox.fullname}.{name}" for name in columns} | set(indexes)
    return {name: text for name, text in additions(t, dialect).items() if name not in there}


def of_a_relay(t: Tables) -> list[sa.Table]:
    """Those that every relay reads, which needs no rights on the others."""
    return [table for table in all_tables(t) if table in {t.outbox, t.parked}]


def incomplete(
    table: sa.Table, dialect: Dialect, columns: Collection[str], indexes: Collection[str]
) -> Mapping[str, str]:
    """What a table with these columns and indexes lacks: names ("table.column", "index") and the DDL that adds each.

    The text is empty for a column that rows which are there could have no value in.
    """
    lost = [column for column in table.columns if column.name not in columns]
    gone = [index for index in indexes_of(table, dialect) if index.name not in indexes]
    add = f"ALTER TABLE {quoted(table, dialect)} ADD COLUMN "
    again = dialect.name not in MARIADB
    return {
        f"{table.fullname}.{column.name}": add + _text(CreateColumn(column), dialect) if _can_be_added(column) else ""
        for column in lost
    } | {str(index.name): _text(CreateIndex(index, if_not_exists=again), dialect) for index in gone}


def repairs(lacking: Mapping[str, str], place: str) -> list[str]:
    """The DDL for what tables lack. Raises FixError where a column cannot be added."""
    if lost := [name for name, text in lacking.items() if not text]:
        raise FixError(
            f"{place} lacks {', '.join(lost)}, for which the rows that are there have no value",
            remedy="restore the table from a backup; or, once no message waits in it, drop it and run this again",
        )
    return list(lacking.values())


def _can_be_added(column: sa.Column[object]) -> bool:
    return not column.primary_key and (column.nullable or column.server_default is not None)


def _with_indexes(create_table: str, indexes: Sequence[sa.Index], dialect: Dialect) -> str:
    """MySQL knows no CREATE INDEX that may be run twice: they are part of the table. Primary keys have no names."""
    quote = dialect.identifier_preparer.quote
    body, end, rest = re.sub(r"CONSTRAINT \S+ (?=PRIMARY)", "", create_table).rpartition("\n)")
    lines = [f",\n    INDEX {quote(str(i.name))} ({', '.join(quote(c.name) for c in i.columns)})" for i in indexes]
    return f"{body}{''.join(lines)}{end} {rest}"


def _text(element: ExecutableDDLElement | CreateColumn, dialect: Dialect) -> str:
    lines = str(element.compile(dialect=dialect)).strip().splitlines()
    return "\n".join(line.rstrip().replace("\t", "    ") for line in lines if line.strip())
