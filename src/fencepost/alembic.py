"""The tables in Alembic's migrations, with what autogenerate does not write: how PostgreSQL is to store them.

    from alembic import op
    from fencepost import alembic as outbox

    def upgrade() -> None:
        outbox.create_tables(op, revision=1)

    def downgrade() -> None:
        outbox.drop_tables(op)

Alembic itself is not imported here: a migration hands in its ``op``. All of it works in offline mode (``--sql``) too.
``schema`` and ``prefix`` say how the tables are called, as in ``fencepost.Outbox`` and ``[database]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import DropTable

from fencepost.errors import FixError
from fencepost.sql import revisions
from fencepost.sql import schema as ddl
from fencepost.sql.tables import State, Tables, tables
from fencepost.words import counted

_DOUBLING = {"format", "pyformat"}


class Operations(Protocol):
    """What is used of ``alembic.op``."""

    def get_context(self) -> Any: ...

    def execute(self, sqltext: Any) -> Any: ...


def create_tables(
    op: Operations,
    *,
    revision: int,
    schema: str | None = None,
    prefix: str = "fencepost_",
    settle: Literal["delete", "mark"] = "delete",
) -> None:
    """Create the tables as that revision has them, and the schema where it is missing.

    The number keeps the migration what it is: a later release adds its changes as pairs, for ``before`` and ``after``.
    Tables that exist are left as they are. ``settle`` is that of ``[database]``. Raises ConfigurationError for a
    revision that this release does not know.
    """
    t = tables(schema=schema, prefix=prefix, marked=settle == "mark")
    _run(op, t, revisions.created(revision, t, _plain(op)))


def keep_settled(op: Operations, *, schema: str | None = None, prefix: str = "fencepost_") -> None:
    """Add what ``settle = "mark"`` needs to tables that were made without it, or with half of it.

    MariaDB and MySQL commit each DDL statement by itself, so a migration that died half-way has left the half.
    """
    t, dialect = tables(schema=schema, prefix=prefix, marked=True), _plain(op)
    offline = op.get_context().as_sql
    lacking = ddl.additions(t, dialect) if offline else ddl.lacking(t, dialect, *_of_outbox(op.get_context().bind, t))
    _run(op, t, list(lacking.values()))


def before(op: Operations, revision: int, *, schema: str | None = None, prefix: str = "fencepost_") -> None:
    """The first half of a revision: for before the first program of its release starts. Raises ConfigurationError."""
    t = tables(schema=schema, prefix=prefix)
    _run(op, t, revisions.revision(revision).before(t, _plain(op)))


def after(op: Operations, revision: int, *, schema: str | None = None, prefix: str = "fencepost_") -> None:
    """The second half: for when the last program of the release before is gone. Raises ConfigurationError."""
    t = tables(schema=schema, prefix=prefix)
    _run(op, t, revisions.revision(revision).after(t, _plain(op)))


def drop_tables(op: Operations, *, schema: str | None = None, prefix: str = "fencepost_") -> None:
    """Drop the tables; the schema stays.

    Raises FixError where messages wait or are parked, which nobody would ever see again. Offline nobody can look.
    """
    t = tables(schema=schema, prefix=prefix)
    if not op.get_context().as_sql:
        _refuse_to_lose(op.get_context().bind, t)
    for table in ddl.all_tables(t):
        op.execute(DropTable(table, if_exists=True))


def _plain(op: Operations) -> Dialect:
    """The dialect for DDL as a text. What a driver wants doubled is doubled later, when the text is run."""
    dialect: Dialect = op.get_context().dialect
    if dialect.paramstyle not in _DOUBLING:
        return dialect
    kind: Any = type(dialect)
    plain: Dialect = kind(paramstyle="named")
    return plain


def _run(op: Operations, t: Tables, statements: Sequence[str]) -> None:
    """Without CREATE SCHEMA where there is one: it asks for a right even where it has nothing to do."""
    there = t.outbox.schema is not None and not op.get_context().as_sql and _has_schema(op, t.outbox.schema)
    for text in statements:
        if not (there and text == ddl.schema_statement(t.outbox.schema, _plain(op))):
            op.execute(sa.text(text.replace(":", "\\:")))


def _of_outbox(connection: sa.Connection, t: Tables) -> tuple[list[str], list[str]]:
    """The names of the columns and of the indexes that the outbox has."""
    found, (name, schema) = sa.inspect(connection), (t.outbox.name, t.outbox.schema)
    columns, indexes = found.get_columns(name, schema), found.get_indexes(name, schema)
    return [str(each["name"]) for each in columns], [str(each["name"]) for each in indexes]


def _has_schema(op: Operations, name: str) -> bool:
    connection: sa.Connection = op.get_context().bind
    return sa.inspect(connection).has_schema(name)


def _refuse_to_lose(connection: sa.Connection, t: Tables) -> None:
    found = sa.inspect(connection)
    for table, what in ((t.outbox, "waiting"), (t.parked, "parked")):
        if not found.has_table(table.name, schema=table.schema):
            continue
        waits = table.c.state != int(State.SETTLED) if table is t.outbox else sa.true()
        count = connection.scalar(sa.select(sa.func.count()).select_from(table).where(waits)) or 0
        if count:
            raise FixError(
                f"{table.fullname} has {counted(count, 'message')} {what}, which would be lost with it",
                remedy="let the relay publish what waits, retry or discard what is parked; or delete the rows yourself",
            )
