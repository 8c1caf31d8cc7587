"""A real database for one test, seen as an application sees it: plain SQL on a connection of its own."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import sql

from fencepost import plugins
from fencepost.message import Stored, slot_of
from fencepost.ports import DatabaseOptions, Lane, Schema, Source
from fencepost.sql.tables import State
from tests.databases.mariadb_kit import ask, connected

Connect = Callable[["Place"], Awaitable[Any]]
"""Opens a session, as its own class; it is closed when the test ends."""

LANE = Lane("orders")
NOON = datetime(2026, 3, 29, 12, 0, 0, 123456, tzinfo=UTC)


def row(**given: Any) -> dict[str, Any]:
    """The columns of a message, as a writer fills them."""
    values: dict[str, Any] = {
        "id": str(uuid.uuid4()),
        "topic": "orders",
        "key": "order-1",
        "version": 1,
        "type": "order.created",
        "payload": b'{"total": 10}',
        "content_type": "application/json",
        "headers": None,
        "occurred_at": NOON,
        "available_at": None,
        "state": int(State.PENDING),
    }
    values |= given
    values.setdefault("slot", slot_of(values["key"], values["id"]))
    return values


class Transaction(Protocol):
    """An application's transaction."""

    def insert(self, *rows: Mapping[str, Any]) -> list[tuple[int, str]]: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


@dataclass(frozen=True)
class Place:
    """``options`` lead to the outbox. Subclasses know the database's own SQL."""

    options: DatabaseOptions

    @property
    def name(self) -> str:
        return plugins.name_of("database", self.options.url)

    @property
    def schema(self) -> Schema:
        made: Schema = plugins.load("database", self.name).schema(self.options)
        return made

    @property
    def source(self) -> Source:
        made: Source = plugins.load("database", self.name).source(self.options)
        return made

    @property
    def outbox(self) -> str:
        return f"{self.options.prefix}outbox"

    def other(self, **changes: Any) -> Place:
        """Another outbox in the same database."""
        return replace(self, options=replace(self.options, **changes))

    def add(self, *rows: Mapping[str, Any]) -> list[tuple[int, str]]:
        """Insert rows and commit; (position, id) of each."""
        transaction = self.begin()
        added = transaction.insert(*rows)
        transaction.commit()
        return added

    def begin(self) -> Transaction:
        raise AssertionError("a subclass does this")

    def drop(self) -> None:
        """Remove the tables, where the database outlives the test."""

    def ask(self, text: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Rows of a query, or nothing, in a transaction of its own. Parameters are written %s."""
        raise AssertionError("a subclass does this")


class _Connected:
    """A transaction on a connection that it closes at its end."""

    def __init__(self, connection: Any, insert: str, mark: str) -> None:
        self._connection, self._insert, self._mark = connection, insert, mark

    def insert(self, *rows: Mapping[str, Any]) -> list[tuple[int, str]]:
        added = []
        for values in rows:
            marks = ", ".join([self._mark] * len(values))
            text = f"{self._insert} ({', '.join(values)}) VALUES ({marks}) RETURNING seq"
            cursor = self._connection.execute(text, tuple(values.values()))
            added.append((cursor.fetchall()[0][0], values["id"]))
        return added

    def commit(self) -> None:
        self._connection.commit()
        self._connection.close()

    def rollback(self) -> None:
        self._connection.rollback()
        self._connection.close()


class PostgresqlPlace(Place):
    """Tables of its own in a database of PostgreSQL."""

    def drop(self) -> None:
        if self.options.schema:
            name = '"' + self.options.schema.replace('"', '""') + '"'
            self.ask(f"DROP SCHEMA {name} CASCADE")
        else:
            names = [f"{self.options.prefix}{table}" for table in ("outbox", "entity", "parked", "lease", "lane")]
            self.ask(f"DROP TABLE IF EXISTS {', '.join(names)}")

    def begin(self) -> Transaction:
        connection = psycopg.connect(self.options.url)
        if self.options.schema:
            path = sql.SQL("SET search_path = {}").format(sql.Identifier(self.options.schema))
            connection.execute(path)
        return _Connected(connection, f"INSERT INTO {self.outbox}", "%s")

    def ask(self, text: str, *arguments: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.options.url, autocommit=True) as connection:
            cursor = connection.execute(text.encode(), arguments or None)
            return cursor.fetchall() if cursor.description else []


class MariadbPlace(Place):
    """Tables of its own in a database of MariaDB."""

    def drop(self) -> None:
        if self.options.schema:
            self.ask(f"DROP DATABASE `{self.options.schema}`")
        else:
            names = [f"{self.options.prefix}{table}" for table in ("outbox", "entity", "parked", "lease", "lane")]
            self.ask(f"DROP TABLE IF EXISTS {', '.join(names)}")

    def begin(self) -> Transaction:
        more = {"database": self.options.schema} if self.options.schema else {}
        return _Numbered(connected(self.options.url, autocommit=False, **more), f"INSERT INTO {self.outbox}", "%s")

    def ask(self, text: str, *arguments: object) -> list[tuple[Any, ...]]:
        return ask(self.options.url, text, *arguments)


class _Numbered(_Connected):
    """A connection that tells the position by itself."""

    def insert(self, *rows: Mapping[str, Any]) -> list[tuple[int, str]]:
        added = []
        for values in rows:
            columns = ", ".join(f"`{name}`" for name in values)
            text = f"{self._insert} ({columns}) VALUES ({', '.join([self._mark] * len(values))})"
            with self._connection.cursor() as cursor:
                cursor.execute(text, [_naive(value) for value in values.values()])
                added.append((cursor.lastrowid, values["id"]))
        return added


def _naive(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value


class SqlitePlace(Place):
    """A file of its own."""

    @property
    def path(self) -> Path:
        return Path(self.options.url.partition("///")[2])

    def begin(self) -> Transaction:
        connection = sqlite3.connect(self.path)
        return _Adapted(connection, f"INSERT INTO {self.outbox}", "?")

    def ask(self, text: str, *arguments: object) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path)
        try:
            rows = connection.execute(text.replace("%s", "?"), arguments).fetchall()
            connection.commit()
        finally:
            connection.close()
        return rows


class _Adapted(_Connected):
    """Times as the tables keep them there: text, UTC, microseconds."""

    def insert(self, *rows: Mapping[str, Any]) -> list[tuple[int, str]]:
        return super().insert(*({name: _as_text(value) for name, value in values.items()} for values in rows))


def _as_text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return value


def pairs(rows: Sequence[Stored]) -> list[tuple[int, str]]:
    """(position, id) of each message."""
    return [(int(m.position), m.id) for m in rows]
