"""The tables, as SQLAlchemy metadata: the one description that statements, printed DDL and Alembic share.

Times are UTC with microseconds. Ids are UUIDs as text of 36 characters in Python, native where the database has the
type.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.sql.compiler import DDLCompiler
from sqlalchemy.types import TypeEngine

from fencepost.message import KEY_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX, TYPE_CHARACTERS_MAX


class State(enum.IntEnum):
    """What a row of the outbox is waiting for."""

    PENDING = 0
    """To be published."""
    SENDING = 1
    """Given to a plain broker by the owner whose token stands in the row; nobody knows yet whether it arrived."""
    DELAYED = 2
    """Its available_at."""


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """An aware datetime, kept as UTC with microseconds. SQLite has no such type: text that sorts as the times do."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[datetime]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sa.String(26))  # type: ignore[arg-type]
        return dialect.type_descriptor(sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        if value is None:
            return None
        moment = value.astimezone(UTC)
        if dialect.name == "sqlite":
            return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        return moment

    def process_result_value(self, value: datetime | str | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


_Seq = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # only INTEGER PRIMARY KEY counts up by itself there
_Id = sa.Uuid(as_uuid=False).with_variant(sa.String(36), "sqlite")

_QUEUE = {
    # Every row is deleted soon after it was inserted: vacuum must follow the deletes, not the size of a backlog.
    "autovacuum_vacuum_scale_factor": "0",
    "autovacuum_vacuum_threshold": "10000",
    # A drained table would be cut after each burst, under a lock that stops every writer, only to grow again.
    "vacuum_truncate": "false",
    "toast.autovacuum_vacuum_scale_factor": "0",
    "toast.autovacuum_vacuum_threshold": "10000",
    "toast.vacuum_truncate": "false",
}
_UPDATED = {"fillfactor": "80"}  # room for the next version of a row in its own page, where no index need know of it


class StoreAs(ExecutableDDLElement):
    """How PostgreSQL is to store a table. Of its own, because SQLAlchemy 2.0 knows no WITH in CREATE TABLE."""

    def __init__(self, table: sa.Table, settings: dict[str, str]) -> None:
        self.table, self.settings = table, settings


@compiles(StoreAs)
def _compile_store_as(element: StoreAs, compiler: DDLCompiler, **_: object) -> str:
    given = ", ".join(f"{name} = {value}" for name, value in element.settings.items())
    return f"ALTER TABLE {compiler.preparer.format_table(element.table)} SET ({given})"


# Not in the table's info, which Alembic would write into a migration.
_stored: WeakKeyDictionary[sa.Table, dict[str, str]] = WeakKeyDictionary()


def _store_as(table: sa.Table, settings: dict[str, str]) -> None:
    """Whoever creates the table, ``metadata.create_all`` too, sets these after it."""
    sa.event.listen(table, "after_create", StoreAs(table, settings).execute_if(dialect="postgresql"))
    _stored[table] = settings


def storage(table: sa.Table) -> StoreAs | None:
    """How PostgreSQL is to store a table of an outbox; None where it is stored as any other."""
    settings = _stored.get(table)
    return None if settings is None else StoreAs(table, settings)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables under one schema and prefix."""

    metadata: sa.MetaData
    outbox: sa.Table
    entity: sa.Table
    parked: sa.Table
    lease: sa.Table
    lane: sa.Table


def tables(*, schema: str | None = None, prefix: str = "fencepost_", metadata: sa.MetaData | None = None) -> Tables:
    """The tables, added to ``metadata`` (a new one where none is given: hand yours in to let Alembic see them)."""
    into = sa.MetaData() if metadata is None else metadata
    return Tables(
        into,
        _outbox(into, f"{prefix}outbox", schema),
        _entity(into, f"{prefix}entity", schema),
        _parked(into, f"{prefix}parked", schema),
        _lease(into, f"{prefix}lease", schema),
        _lane(into, f"{prefix}lane", schema),
    )


def _message_columns() -> list[sa.Column[object]]:
    return [
        sa.Column("id", _Id, nullable=False),
        sa.Column("topic", sa.String(TOPIC_CHARACTERS_MAX), nullable=False),
        sa.Column("key", sa.String(KEY_CHARACTERS_MAX)),
        sa.Column("version", sa.BigInteger),  # None with a key: the position is the version
        sa.Column("type", sa.String(TYPE_CHARACTERS_MAX), nullable=False),
        sa.Column("slot", sa.SmallInteger, nullable=False),
        sa.Column("payload", sa.LargeBinary),
        sa.Column("content_type", sa.String(TYPE_CHARACTERS_MAX), nullable=False),
        sa.Column("headers", sa.Text),  # a JSON object of texts; None where there are none
        sa.Column("occurred_at", UtcDateTime, nullable=False),
        sa.Column("available_at", UtcDateTime),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    ]


def _outbox(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    table = sa.Table(
        name,
        metadata,
        sa.Column("seq", _Seq, sa.Identity(always=False), primary_key=True),
        *_message_columns(),
        sa.Column("state", sa.SmallInteger, nullable=False, server_default="0"),
        sa.Column("token", sa.BigInteger),
        sa.Column("last_error", sa.Text),
        schema=schema,
        sqlite_autoincrement=True,  # otherwise the last deleted position is handed out again
    )
    _store_as(table, _QUEUE)
    delayed = table.c.state == int(State.DELAYED)
    sa.Index(f"{name}_due", table.c.available_at, postgresql_where=delayed, sqlite_where=delayed)
    return table


def _parked(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        *_message_columns(),
        sa.Column(
            "seq", sa.BigInteger, nullable=False
        ),  # where it stood; not unique: a database that fell back hands positions out again
        sa.Column("parked_at", UtcDateTime, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"{name}_pkey"),
        schema=schema,
    )


def _entity(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    table = sa.Table(
        name,
        metadata,
        sa.Column("topic", sa.String(TOPIC_CHARACTERS_MAX), primary_key=True),
        sa.Column("key", sa.String(KEY_CHARACTERS_MAX), primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        schema=schema,
    )
    _store_as(table, _UPDATED)
    return table


def _lease(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("owner", sa.String(255)),  # None: released
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("acquired_at", UtcDateTime),
        sa.Column("expires_at", UtcDateTime),
        sa.Column("session", sa.Boolean, nullable=False),  # the owner holds a lock that ends with its session
        schema=schema,
    )


def _lane(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("relay", sa.String(100), primary_key=True),
        sa.Column("lane", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("first_slot", sa.SmallInteger, nullable=False),
        sa.Column("last_slot", sa.SmallInteger, nullable=False),
        sa.Column("asleep", sa.Boolean, nullable=False),  # writers wake the owner only where this is true
        schema=schema,
    )
