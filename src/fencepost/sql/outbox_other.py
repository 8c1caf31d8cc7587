"""The statements that add messages to an outbox in Oracle, SQL Server or CockroachDB, and what cannot be added there.

CockroachDB raises an entity's version as SQLite does, in one statement. In the two others no statement both makes a row
and tells its version: the row is locked first, and made where it is missing. Whoever makes it second is told by the
unique key, which costs only that statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Dialect

from fencepost.errors import ConfigurationError, MessageRefused
from fencepost.message import Message
from fencepost.sql.other import KINDS, UNPARTITIONED
from fencepost.sql.statements import Prepared, prepare
from fencepost.sql.tables import Tables

_HINTS = {"mssql": "WITH (UPDLOCK, ROWLOCK)"}  # SQL Server's FOR UPDATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """Statements for an entity's version, where one statement cannot do it. They take topic, key and version."""

    lock: Prepared
    """Returns (version), or no row, and locks it."""
    first: Prepared
    """Makes the row, with version 0."""
    put: Prepared
    """Writes the version that was counted."""


def forms(t: Tables, columns: Sequence[str], versions: str, dialect: Dialect) -> dict[str, Any]:
    """One message, as statements of SQLAlchemy Core. Raises ConfigurationError for versions that cannot be had."""
    if versions == "position":
        raise ConfigurationError(
            f'versions="position" on {KINDS[dialect.name].called}, where no lock is known to end with the transaction'
            " and leave no row",
            remedy='use versions="counter" (the default), which keeps one small row for each entity',
        )
    insert = sa.insert(t.outbox).values({name: _value(t.outbox.c[name], dialect) for name in columns}).inline()
    if dialect.name in UNPARTITIONED:
        return {"keyless": insert, "drawn": insert, "given": insert}
    insert = insert.returning(t.outbox.c.seq, t.outbox.c.version)
    one = {"keyless": insert, "drawn": insert, "given": insert}
    return one | {"entity_drawn": _raised(t.entity, given=False), "entity_given": _raised(t.entity, given=True)}


def counting(entity: sa.Table, dialect: Dialect) -> Counting | None:
    """Where they are needed: see ``Counting``."""
    return count_by_hand(entity, dialect) if dialect.name in UNPARTITIONED else None


def count_by_hand(entity: sa.Table, dialect: Dialect) -> Counting:
    """The statements, for any database in which a statement that fails leaves its transaction as it was."""
    c = entity.c
    this = sa.and_(c.topic == _bind(c.topic), c.key == _bind(c.key))
    first = {"topic": _bind(c.topic), "key": _bind(c.key), "version": sa.literal_column("0")}
    return Counting(
        lock=prepare(locking(sa.select(c.version).where(this), entity), dialect),
        first=prepare(sa.insert(entity).values(first).inline(), dialect),
        put=prepare(sa.update(entity).values(version=_bind(c.version)).where(this), dialect),
    )


def check(dialect: Dialect, messages: Sequence[Message]) -> None:
    """Raise MessageRefused for what the database would keep as something else."""
    if dialect.name == "oracle" and any(message.payload == b"" for message in messages):
        raise MessageRefused(
            "the payload is empty, which Oracle keeps as none at all: it would be read as a tombstone",
            remedy="send at least one byte; None is a tombstone",
        )


def locking(query: Any, table: sa.Table, *, skip: bool = False) -> Any:
    """The query, which locks the rows that it returns; ``skip``: those that somebody else has locked are left out."""
    hint = "WITH (UPDLOCK, ROWLOCK, READPAST)" if skip else _HINTS["mssql"]
    return query.with_for_update(skip_locked=skip).with_hint(table, hint, "mssql")


def _bind(column: Any) -> sa.BindParameter[Any]:
    return sa.bindparam(column.name, type_=column.type)


def _value(column: Any, dialect: Dialect) -> Any:
    """A NULL is bound as a text there, which becomes bytes only when it is told to."""
    plain = _bind(column)
    return sa.cast(plain, column.type) if dialect.name == "mssql" and column.name == "payload" else plain


def _raised(entity: sa.Table, *, given: bool) -> Any:
    version = _bind(entity.c.version) if given else sa.literal_column("1")
    upsert = postgresql.insert(entity).values(topic=_bind(entity.c.topic), key=_bind(entity.c.key), version=version)
    new = upsert.excluded.version
    raised = upsert.on_conflict_do_update(
        index_elements=[entity.c.topic, entity.c.key],
        set_={"version": new if given else entity.c.version + new},
        where=entity.c.version < new if given else None,
    )
    return raised.returning(entity.c.version)
