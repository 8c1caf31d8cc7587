"""What a database itself says of its tables, so that two ways of making them can be compared to the last setting."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

from fencepost.sql.mariadb_address import connect_arguments
from tests.databases.mariadb_kit import ask

_POSTGRESQL = (
    # columns: order, type, collation, nullability, default, identity, storage
    """
    SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation, a.attnotnull,
           pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attstorage
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relnamespace = to_regnamespace(quote_ident(%(schema)s)) AND c.relkind = 'r'
          AND a.attnum > 0 AND NOT a.attisdropped
    """,
    # constraints
    """
    SELECT c.relname, k.conname, pg_get_constraintdef(k.oid)
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
    WHERE c.relnamespace = to_regnamespace(quote_ident(%(schema)s))
    """,
    # indexes
    "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = %(schema)s",
    # how tables, and what is too long for them, are stored; sequences
    """
    SELECT c.relname, c.relkind::text, c.relpersistence::text, c.reloptions, t.reloptions, s.seqstart, s.seqincrement,
           s.seqmax, s.seqcache
    FROM pg_class c LEFT JOIN pg_class t ON t.oid = c.reltoastrelid LEFT JOIN pg_sequence s ON s.seqrelid = c.oid
    WHERE c.relnamespace = to_regnamespace(quote_ident(%(schema)s))
    """,
)


def postgresql(url: str, schema: str = "public", prefix: str = "fencepost_") -> list[str]:
    """Every column, constraint, index and setting in a schema, a line each, of everything that begins with a prefix."""
    with psycopg.connect(url) as connection:
        rows = [row for query in _POSTGRESQL for row in connection.execute(query.encode(), {"schema": schema})]
    return sorted(repr(row) for row in rows if row[0].startswith(prefix))


def mariadb(url: str, schema: str | None = None, prefix: str = "fencepost_") -> list[str]:
    """Every line of SHOW CREATE TABLE in a database, of everything that begins with a prefix."""
    database = schema or connect_arguments(url)["database"]
    query = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
    names = [name for (name,) in ask(url, query, database) if name.startswith(prefix)]
    texts = [(name, ask(url, f"SHOW CREATE TABLE `{database}`.`{name}`")[0][1]) for name in names]
    counted = [(name, re.sub(r" AUTO_INCREMENT=\d+", "", text)) for name, text in texts]
    return sorted(f"{name}: {line.strip().rstrip(',')}" for name, text in counted for line in text.splitlines())


def sqlite(path: Path, prefix: str = "fencepost_") -> list[str]:
    """The statements that SQLite keeps, without their blanks, for everything that begins with a prefix."""
    query = "SELECT type, name, sql FROM sqlite_master WHERE substr(tbl_name, 1, ?) = ?"
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(query, (len(prefix), prefix)).fetchall()
    return sorted(f"{kind} {name} {' '.join((text or '').split())}" for kind, name, text in rows)
