"""The statements that add messages to an outbox, and the two names behind them: the channel and the entity's lock.

PostgreSQL writes a message, or a whole batch, in one statement: it locks the entity, draws the position while the lock
is held, and notifies where a relay sleeps. MariaDB and MySQL lock the entity in one statement and write in the next.
SQLite has one writer at a time: its write lock gives the order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

from fencepost.errors import ConfigurationError
from fencepost.sql import outbox_mariadb, outbox_other
from fencepost.sql.other import OTHERS
from fencepost.sql.statements import Prepared, prepare
from fencepost.sql.tables import MARIADB, Tables, tables

Versions = Literal["counter", "position"]

COLUMNS = (
    "id",
    "topic",
    "key",
    "version",
    "type",
    "slot",
    "payload",
    "content_type",
    "headers",
    "occurred_at",
    "available_at",
    "state",
)
"""The columns that a writer fills. The values of a statement have the same names."""

_CHANNEL_BYTES_MAX = 63  # PostgreSQL refuses longer ones

_Forms = dict[str, Any]  # the name of a field of AddStatements -> a statement of SQLAlchemy Core


@dataclass(frozen=True, slots=True, kw_only=True)
class AddStatements:
    """The compiled statements of one dialect, one outbox and one form of versions.

    ``keyless`` writes a message without a key, ``drawn`` one whose version is drawn, ``given`` one with the caller's
    own (it writes nothing where that is not newer). They return (seq, version, ...). Where the dialect cannot lock the
    entity in the same statement, ``entity_drawn`` and ``entity_given`` come first and return (version), or no row where
    the caller's own is not newer. Where it cannot do that either, the version is counted by ``counting``. ``batch``
    writes many messages at once: each value is an array, and rows are returned
    in no particular order. ``chunks`` writes some at a time. ``alone``: nobody else can write at the same time.

    A statement without rows of its own (MariaDB's) returns the number that it drew, as one row: see ``drawn_rows``.
    """

    keyless: Prepared
    drawn: Prepared
    given: Prepared
    entity_drawn: Prepared | None = None
    entity_given: Prepared | None = None
    counting: outbox_other.Counting | None = None
    batch: Prepared | None = None
    chunks: outbox_mariadb.Chunks | None = None
    alone: bool = False


def drawn_rows(number: int | None) -> list[tuple[int]]:
    """What a statement returns that has no rows: the number that its server told with the end (the "last row id")."""
    return [(number,)] if number else []


def channel(schema: str | None, prefix: str) -> str:
    """What writers notify and sleeping relays listen on, at most 63 bytes: a digest where the name would be longer."""
    name = f"fencepost:{schema}.{prefix}outbox" if schema else f"fencepost:{prefix}outbox"
    if len(name.encode()) <= _CHANNEL_BYTES_MAX:
        return name
    return f"fencepost:{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"


def lock_number(topic: str, key: str) -> int:
    """An entity's number, -2**63 to 2**63 - 1. The statement mixes in the table's to get the advisory lock's number."""
    digest = hashlib.blake2b(f"{topic}\0{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def add_statements(dialect: Dialect, *, schema: str | None, prefix: str, versions: Versions) -> AddStatements:
    """Compile the statements. Raises ConfigurationError for a database that cannot hold an outbox in this form."""
    t = tables(schema=schema, prefix=prefix)
    if dialect.name == "postgresql":
        forms = _counter(t) if versions == "counter" else _position(t)
        name, found = channel(schema, prefix), (t.outbox.c.seq, t.outbox.c.version)
        forms = {form: waking(statement, t, name, *found) for form, statement in forms.items()}
    elif dialect.name == "sqlite":
        forms = _sqlite(t, versions)
    elif dialect.name in MARIADB:
        forms = outbox_mariadb.forms(t, COLUMNS, versions)
    elif dialect.name in OTHERS:
        forms = outbox_other.forms(t, COLUMNS, versions, dialect)
    else:
        remedy = f"use one of {', '.join(sorted(['postgresql', 'sqlite', *MARIADB, *OTHERS]))}"
        raise ConfigurationError(f"an outbox cannot be kept in {dialect.name!r}", remedy=remedy)
    prepared = {name: prepare(statement, dialect) for name, statement in forms.items()}
    chunks = outbox_mariadb.Chunks(t, COLUMNS, dialect) if dialect.name in MARIADB else None
    counting = outbox_other.counting(t.entity, dialect)
    return AddStatements(**prepared, counting=counting, chunks=chunks, alone=dialect.name == "sqlite")


def position_lock(t: Tables, dialect: Dialect) -> Prepared | None:
    """Where an entity has no row and many write at once: what locks it (lock), see ``lock_number``."""
    if dialect.name != "postgresql":
        return None
    number = _table_lock(t.outbox, sa.bindparam("lock", type_=sa.BigInteger))
    return prepare(sa.select(sa.cast(sa.func.pg_advisory_xact_lock(number), sa.Text)), dialect)


# ---------------------------------------------------------------------------------------------- PostgreSQL, one message


def _bind(column: Any) -> sa.BindParameter[Any]:
    return sa.bindparam(column.name, type_=column.type)


def _binds(outbox: sa.Table, **instead: Any) -> list[Any]:
    return [instead.get(name, _bind(outbox.c[name])) for name in COLUMNS]


def _insert(t: Tables, rows: sa.Select[Any]) -> postgresql.Insert:
    return postgresql.insert(t.outbox).from_select(list(COLUMNS), rows, include_defaults=False)


def _counter(t: Tables) -> _Forms:
    def one(*, given: bool) -> postgresql.Insert:
        version = _bind(t.entity.c.version) if given else sa.literal_column("1")
        upsert = postgresql.insert(t.entity).values(
            topic=_bind(t.entity.c.topic), key=_bind(t.entity.c.key), version=version
        )
        locked = _raise_version(upsert, t.entity, given=given).returning(t.entity.c.version).cte("locked")
        # The new row is made from the row that the upsert returns, so its position is drawn when the lock is held.
        return _insert(t, sa.select(*_binds(t.outbox, version=locked.c.version)).select_from(locked))

    return {
        "keyless": _insert(t, sa.select(*_binds(t.outbox))),
        "drawn": one(given=False),
        "given": one(given=True),
        "batch": _counter_batch(t),
    }


def _raise_version(upsert: Any, entity: sa.Table, *, given: bool) -> Any:
    """Where the entity is known: add to its version, or set it to the caller's if that is larger (no row otherwise)."""
    new = upsert.excluded.version
    return upsert.on_conflict_do_update(
        index_elements=[entity.c.topic, entity.c.key],
        set_={"version": new if given else entity.c.version + new},
        where=entity.c.version < new if given else None,
    )


def _position(t: Tables) -> _Forms:
    number = _table_lock(t.outbox, sa.bindparam("lock", type_=sa.BigInteger))
    locked = sa.select(sa.func.pg_advisory_xact_lock(number).label("held")).cte("locked").prefix_with("MATERIALIZED")
    one = _insert(t, sa.select(*_binds(t.outbox)).select_from(locked))
    return {
        "keyless": _insert(t, sa.select(*_binds(t.outbox))),
        "drawn": one,
        "given": one,
        "batch": _position_batch(t),
    }


def _table_lock(outbox: sa.Table, number: Any) -> Any:
    """An entity's lock in this very table, whether a writer finds it by its schema's name or by its search path."""
    name = ".".join(_quoted(part, '"') for part in (outbox.schema, outbox.name) if part)
    return number.op("#")(sa.literal_column(f"({_quoted(name)}::regclass::oid::bigint << 32)"))


def _quoted(text: str, quote: str = "'") -> str:
    return quote + text.replace(quote, quote * 2) + quote


def waking(statement: Any, t: Tables, name: str, *columns: Any) -> Any:
    """Return the columns, and notify when, and only when, a relay of this outbox sleeps.

    The sub-select depends on no row: it runs once for a statement, however many rows that writes.
    """
    notify = sa.func.pg_notify(sa.literal_column(_quoted(name)), sa.literal_column("''"))
    asleep = (
        sa.select(sa.cast(notify, sa.Text)).select_from(t.lane).where(t.lane.c.asleep).limit(sa.literal_column("1"))
    )
    return statement.returning(*columns, asleep.scalar_subquery().label("woken"))


# -------------------------------------------------------------------------------------------- PostgreSQL, many messages


def _rows(name: str, columns: dict[str, Any]) -> Any:
    """Bound arrays of equal length as rows: ``columns`` gives names and types; ``place`` counts from 1."""
    arrays = [sa.bindparam(column, type_=postgresql.ARRAY(kind, dimensions=1)) for column, kind in columns.items()]
    fields = [sa.column(column, kind) for column, kind in columns.items()]
    return sa.func.unnest(*arrays).table_valued(*fields, with_ordinality="place", name=name).render_derived()


def _messages(t: Tables, **more: Any) -> Any:
    return _rows("m", {name: _unbounded(t.outbox.c[name].type) for name in COLUMNS} | more)


def _unbounded(kind: Any) -> Any:
    return sa.Text() if isinstance(kind, sa.String) else kind  # a cast to VARCHAR(n)[] would cut instead of refuse


def _counter_batch(t: Tables) -> postgresql.Insert:
    """Each entity is raised once, by the number of its messages; ``behind`` counts the later ones of each message."""
    e = _rows("e", {"entity_topic": sa.Text(), "entity_key": sa.Text(), "entity_count": sa.BigInteger()})
    upsert = postgresql.insert(t.entity).from_select(
        ["topic", "key", "version"],
        sa.select(e.c.entity_topic, e.c.entity_key, e.c.entity_count),
        include_defaults=False,
    )
    locked = (
        _raise_version(upsert, t.entity, given=False)
        .returning(t.entity.c.topic, t.entity.c.key, t.entity.c.version)
        .cte("locked")
    )
    m = _messages(t, behind=sa.BigInteger())
    version = locked.c.version - m.c.behind
    same = sa.and_(locked.c.topic == m.c.topic, locked.c.key == m.c.key)
    rows = sa.select(*(version if name == "version" else m.c[name] for name in COLUMNS))
    return _insert(t, rows.select_from(m.outerjoin(locked, same)).order_by(m.c.place))


def _position_batch(t: Tables) -> postgresql.Insert:
    """``lock`` is an array of the entities' numbers. The count makes sure that all are held before a row is written."""
    k = _rows("k", {"lock": sa.BigInteger()})
    lock = sa.func.pg_advisory_xact_lock(_table_lock(t.outbox, k.c.lock)).label("held")
    locked = sa.select(lock).select_from(k).cte("locked").prefix_with("MATERIALIZED")
    held = sa.select(sa.func.count().label("locks")).select_from(locked).subquery("held")
    m = _messages(t)
    rows = sa.select(*(m.c[name] for name in COLUMNS)).select_from(m.join(held, held.c.locks >= sa.literal_column("0")))
    return _insert(t, rows.order_by(m.c.place))


# --------------------------------------------------------------------------------------------------------------- SQLite


def _sqlite(t: Tables, versions: Versions) -> _Forms:
    insert = sa.insert(t.outbox).values({name: _bind(t.outbox.c[name]) for name in COLUMNS})
    insert = insert.returning(t.outbox.c.seq, t.outbox.c.version)
    one = {"keyless": insert, "drawn": insert, "given": insert}
    if versions == "position":
        return one
    return one | {"entity_drawn": _sqlite_entity(t, given=False), "entity_given": _sqlite_entity(t, given=True)}


def _sqlite_entity(t: Tables, *, given: bool) -> Any:
    version = _bind(t.entity.c.version) if given else sa.literal_column("1")
    upsert = sqlite.insert(t.entity).values(topic=_bind(t.entity.c.topic), key=_bind(t.entity.c.key), version=version)
    return _raise_version(upsert, t.entity, given=given).returning(t.entity.c.version)
