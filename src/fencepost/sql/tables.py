"""The tables, as SQLAlchemy metadata: the one description that statements, printed DDL and Alembic share.

Times are UTC with microseconds. Ids are UUIDs as text of 36 characters in Python, native where the database has the
type.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.dialects import mssql, mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.sql.compiler import DDLCompiler, TypeCompiler
from sqlalchemy.types import TypeEngine

from fencepost.message import KEY_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX, TYPE_CHARACTERS_MAX

MARIADB = ("mysql", "mariadb")
"""What SQLAlchemy calls the two: a URL with "mysql" in it may well lead to a MariaDB."""

ZONELESS = (*MARIADB, "mssql")
"""Where a datetime is bound without its time zone, as UTC."""


class State(enum.IntEnum):
    """What a row of the outbox is waiting for."""

    PENDING = 0
    """To be published."""
    SENDING = 1
    """Given to a plain broker by the owner whose token stands in the row; nobody knows yet whether it arrived."""
    DELAYED = 2
    """Its available_at."""
    SETTLED = 3
    """Nothing: it is published, and kept for a while (where settled rows are marked, not deleted)."""


class _OracleTimestamp(sa.types.UserDefinedType[datetime]):
    """Written as text, whose microseconds no driver can mistake: a bound datetime may become a DATE, which has none."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TIMESTAMP(6)"

    def bind_expression(self, bindvalue: Any) -> Any:
        return sa.func.to_timestamp(bindvalue, sa.literal_column("'YYYY-MM-DD HH24:MI:SS.FF6'"))


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """An aware datetime, kept as UTC with microseconds. SQLite has no such type: text that sorts as the times do.

    The types of MariaDB, Oracle and SQL Server have no time zone, so that no session's zone changes what is read.
    """

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[datetime]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sa.String(26))  # type: ignore[arg-type]
        if dialect.name in MARIADB:
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        if dialect.name == "oracle":
            return _OracleTimestamp()
        if dialect.name == "mssql":
            return dialect.type_descriptor(mssql.DATETIME2(precision=6))  # type: ignore[no-untyped-call]
        return dialect.type_descriptor(sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        if value is None:
            return None
        moment = value.astimezone(UTC)
        if dialect.name in {"oracle", "sqlite"}:
            return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        return moment.replace(tzinfo=None) if dialect.name in ZONELESS else moment

    def process_result_value(self, value: datetime | str | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class ExactText(sa.String):
    """MariaDB and MySQL: text that is equal where every byte is, case and trailing blanks included.

    Each has another name for that collation; each reads the comment that is meant for it.
    """

    __visit_name__ = "exact_text"


@compiles(ExactText, *MARIADB)
def _compile_exact_text(element: ExactText, _: TypeCompiler, **__: object) -> str:
    collation = "/*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */"
    return f"VARCHAR({element.length}) CHARACTER SET utf8mb4 {collation}"


_MSSQL_EXACT = "Latin1_General_100_BIN2"


def exact(length: int, *, wide: bool = False) -> sa.String:
    """``wide``: may have characters beyond U+FFFF, which SQL Server counts twice."""
    exact = sa.String(length).with_variant(ExactText(length), *MARIADB)
    return exact.with_variant(mssql.NVARCHAR(length * 2 if wide else length, collation=_MSSQL_EXACT), "mssql")


def named(length: int) -> sa.String:
    return sa.String(length).with_variant(mssql.NVARCHAR(length * 2), "mssql")


class _Bit(sa.types.TypeDecorator[bool]):
    """Oracle: a number, because a BOOLEAN is too new for most."""

    impl = sa.SmallInteger
    cache_ok = True

    def process_bind_param(self, value: bool | None, _: Dialect) -> int | None:
        return None if value is None else int(value)


Seq = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # only INTEGER PRIMARY KEY counts up by itself there
_Id = (
    sa.Uuid(as_uuid=False)
    .with_variant(sa.String(36), "sqlite")
    .with_variant(mysql.CHAR(36, charset="ascii", collation="ascii_bin"), *MARIADB)
    .with_variant(mssql.CHAR(36, collation=_MSSQL_EXACT), "mssql")
    .with_variant(sa.String(36), "oracle")
)
Bytes = sa.LargeBinary().with_variant(mysql.LONGBLOB(), *MARIADB)
Payload = Bytes.with_variant(mssql.VARBINARY("max"), "mssql")  # type: ignore[no-untyped-call]
HeadersText = sa.Text().with_variant(mysql.LONGTEXT(), *MARIADB).with_variant(mssql.NVARCHAR(), "mssql")
_Text = sa.Text().with_variant(mssql.NVARCHAR(), "mssql")
Flag = sa.Boolean().with_variant(_Bit(), "oracle")

_MARIADB_STORAGE = {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}
ON_MARIADB: dict[str, Any] = {
    f"{name}_{option}": value for name in MARIADB for option, value in _MARIADB_STORAGE.items()
}

QUEUE = {
    # Every row is deleted soon after it was inserted: vacuum must follow the deletes, not the size of a backlog.
    "autovacuum_vacuum_scale_factor": "0",
    "autovacuum_vacuum_threshold": "10000",
    # A drained table would be cut after each burst, under a lock that stops every writer, only to grow again.
    "vacuum_truncate": "false",
    "toast.autovacuum_vacuum_scale_factor": "0",
    "toast.autovacuum_vacuum_threshold": "10000",
    "toast.vacuum_truncate": "false",
}
_READY = "_ready"
_SETTLED = "_settled"

UPDATED = {"fillfactor": "80"}  # room for the next version of a row in its own page, where no index need know of it


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


def store_as(table: sa.Table, settings: dict[str, str]) -> None:
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
    existing: bool = False
    """Somebody else's table is the outbox: then there is neither ours, nor entities."""


def tables(
    *,
    schema: str | None = None,
    prefix: str = "fencepost_",
    metadata: sa.MetaData | None = None,
    marked: bool = False,
    existing: bool = False,
    partial_indexes: bool = True,
) -> Tables:
    """The tables, added to ``metadata`` (a new one where none is given: hand yours in to let Alembic see them).

    ``marked``: settled rows stay, so the outbox has a column and an index more, of which writers need not know.
    ``partial_indexes``: False for Alembic on MariaDB and MySQL, which have none; autogenerate asks no index whether it
    is for this database.
    """
    into = sa.MetaData() if metadata is None else metadata
    return Tables(
        into,
        _outbox(into, f"{prefix}outbox", schema, marked=marked, partial_indexes=partial_indexes),
        _entity(into, f"{prefix}entity", schema),
        _parked(into, f"{prefix}parked", schema),
        _lease(into, f"{prefix}lease", schema),
        _lane(into, f"{prefix}lane", schema),
        existing,
    )


def _message_columns() -> list[sa.Column[object]]:
    return [
        sa.Column("id", _Id, nullable=False),
        sa.Column("topic", exact(TOPIC_CHARACTERS_MAX), nullable=False),
        sa.Column("key", exact(KEY_CHARACTERS_MAX, wide=True)),
        sa.Column("version", sa.BigInteger),  # None with a key: the position is the version
        sa.Column("type", named(TYPE_CHARACTERS_MAX), nullable=False),
        sa.Column("slot", sa.SmallInteger, nullable=False),
        sa.Column("payload", Payload),
        sa.Column("content_type", named(TYPE_CHARACTERS_MAX), nullable=False),
        sa.Column("headers", HeadersText),  # a JSON object of texts; None where there are none
        sa.Column("occurred_at", UtcDateTime, nullable=False),
        sa.Column("available_at", UtcDateTime),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    ]


def _outbox(metadata: sa.MetaData, name: str, schema: str | None, *, marked: bool, partial_indexes: bool) -> sa.Table:
    table = sa.Table(
        name,
        metadata,
        sa.Column("seq", Seq, sa.Identity(always=False), primary_key=True),
        *_message_columns(),
        sa.Column("state", sa.SmallInteger, nullable=False, server_default="0"),
        sa.Column("token", sa.BigInteger),
        sa.Column("last_error", _Text),
        schema=schema,
        **ON_MARIADB,
        sqlite_autoincrement=True,  # otherwise the last deleted position is handed out again
    )
    store_as(table, QUEUE)
    delayed = table.c.state == int(State.DELAYED)
    sa.Index(f"{name}_due", table.c.available_at, postgresql_where=delayed, sqlite_where=delayed)
    if partial_indexes:
        _index_ready(table)
    if marked:
        _keep_settled(table)
    return table


def _index_ready(table: sa.Table) -> None:
    """A read of what may be published would otherwise pass every delayed row, each time."""
    ready = table.c.state.in_([int(State.PENDING), int(State.SENDING)])
    index = sa.Index(f"{table.name}{_READY}", table.c.seq, postgresql_where=ready, sqlite_where=ready)
    index.ddl_if(callable_=_can_be_of_some_rows)


def _keep_settled(table: sa.Table) -> None:
    """What is settled has a settled_at, and nothing else has one. Where an index cannot be of some rows only, the other
    rows stand at its beginning, first those that may be published, in the order of their positions: there it serves the
    reads too.
    """
    table.append_column(sa.Column("settled_at", UtcDateTime))
    settled = table.c.state == int(State.SETTLED)
    name = f"{table.name}{_SETTLED}"
    columns = (table.c.settled_at, table.c.available_at, table.c.seq)
    sa.Index(name, *columns, postgresql_where=settled, sqlite_where=settled)


def settled_index(table: sa.Table) -> sa.Index:
    """The index of an outbox whose settled rows stay."""
    return next(index for index in table.indexes if index.name == f"{table.name}{_SETTLED}")


def _can_be_of_some_rows(*_: object, dialect: Dialect, **__: object) -> bool:
    return dialect.name not in MARIADB


def indexes_of(table: sa.Table, dialect: Dialect) -> list[sa.Index]:
    """The indexes that a table has in this database, by name: not all of them have indexes of some rows only."""
    partial = _can_be_of_some_rows(dialect=dialect)
    found = [index for index in table.indexes if partial or not str(index.name).endswith(_READY)]
    return sorted(found, key=lambda index: str(index.name))


def _parked(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        *_message_columns(),
        sa.Column(
            "seq", sa.BigInteger, nullable=False
        ),  # where it stood; not unique: a database that fell back hands positions out again
        sa.Column("parked_at", UtcDateTime, nullable=False),
        sa.Column("reason", _Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"{name}_pkey"),
        schema=schema,
        **ON_MARIADB,
    )


def _entity(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    table = sa.Table(
        name,
        metadata,
        sa.Column("topic", exact(TOPIC_CHARACTERS_MAX), primary_key=True),
        sa.Column("key", exact(KEY_CHARACTERS_MAX, wide=True), primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        schema=schema,
        **ON_MARIADB,
    )
    store_as(table, UPDATED)
    return table


def _lease(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("name", exact(255), primary_key=True),
        sa.Column("owner", exact(255)),  # None: released
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("acquired_at", UtcDateTime),
        sa.Column("expires_at", UtcDateTime),
        sa.Column("session", Flag, nullable=False),  # the owner holds a lock that ends with its session
        schema=schema,
        **ON_MARIADB,
    )


def _lane(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("relay", exact(100), primary_key=True),
        sa.Column("lane", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("first_slot", sa.SmallInteger, nullable=False),
        sa.Column("last_slot", sa.SmallInteger, nullable=False),
        sa.Column("asleep", Flag, nullable=False),  # writers wake the owner only where this is true
        schema=schema,
        **ON_MARIADB,
    )
