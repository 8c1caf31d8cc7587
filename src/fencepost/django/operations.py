"""The migration's step that makes the tables, exactly as `fencepost schema apply` does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.operations.base import Operation
from sqlalchemy.engine import Dialect

from fencepost.django import presence
from fencepost.django.settings import names
from fencepost.drivers import django as driver
from fencepost.errors import FixError
from fencepost.sql import revisions
from fencepost.sql import schema as ddl
from fencepost.sql.tables import State, Tables, tables
from fencepost.words import counted


class CreateTables(Operation):
    """Creates the tables of a revision, with the names of settings.FENCEPOST, where the routers allow it."""

    reversible = True

    def __init__(self, revision: int) -> None:
        self.revision = revision

    def state_forwards(self, app_label: str, state: Any) -> None:
        """The models are said by operations of their own."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Tables that exist are left as they are. Raises ConfigurationError for a database that cannot hold them."""
        connection = schema_editor.connection
        if router.allow_migrate(connection.alias, app_label):
            for text in _statements(connection, self.revision):
                schema_editor.execute(text, params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Drop those that are there. Raises FixError where messages wait or are parked, which nobody would ever see."""
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label):
            return
        t, dialect = _tables(), _dialect(connection)
        if not schema_editor.collect_sql:
            _refuse_to_lose(connection, t, dialect)
        for table in ddl.all_tables(t):
            schema_editor.execute(f"DROP TABLE IF EXISTS {ddl.quoted(table, dialect)}", params=None)

    def describe(self) -> str:
        """One line for ``migrate --plan``."""
        return f"Create the tables of Fencepost, revision {self.revision}"


class KeepSettled(Operation):
    """Adds what settle = "mark" needs to tables that were made without it, for a migration of an application's own."""

    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """The models do not look at it."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """A column and an index, where the routers allow the app "fencepost"."""
        connection = schema_editor.connection
        if router.allow_migrate(connection.alias, "fencepost"):
            found = names()
            t = tables(schema=found.schema, prefix=found.prefix, marked=True)
            for text in presence.lacking(connection, t, _dialect(connection)).values():
                schema_editor.execute(text, params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Nothing: a column and an index more do no harm."""

    def describe(self) -> str:
        """One line for ``migrate --plan``."""
        return "Let settled messages stay"


def _tables() -> Tables:
    found = names()
    return tables(schema=found.schema, prefix=found.prefix, marked=found.marked)


def _dialect(connection: BaseDatabaseWrapper) -> Dialect:
    """The dialect for DDL: no parameters, so nothing is doubled."""
    kind: Any = type(driver.dialect(connection.vendor))
    plain: Dialect = kind(paramstyle="named")
    return plain


def _statements(connection: BaseDatabaseWrapper, revision: int) -> Iterator[str]:
    """Without CREATE SCHEMA where there is one: it asks for a right even where it has nothing to do."""
    t, dialect = _tables(), _dialect(connection)
    first = ddl.schema_statement(t.outbox.schema, dialect)
    there = first is not None and presence.has_schema(connection, str(t.outbox.schema))
    return (text for text in revisions.created(revision, t, dialect) if not (there and text == first))


def _refuse_to_lose(connection: BaseDatabaseWrapper, t: Tables, dialect: Dialect) -> None:
    waits = f" WHERE state <> {int(State.SETTLED)}"
    for table, what, where in ((t.outbox, "waiting", waits), (t.parked, "parked", "")):
        if not presence.may_be_there(connection, table):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {ddl.quoted(table, dialect)}{where}")  # noqa: S608 - our own name
            (count,) = cursor.fetchone()
        if count:
            raise FixError(
                f"{table.fullname} has {counted(count, 'message')} {what}, which would be lost with it",
                remedy="let the relay publish what waits, retry or discard what is parked; or delete the rows yourself",
            )
