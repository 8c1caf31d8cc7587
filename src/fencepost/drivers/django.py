"""Django: one of ``django.db.connections``, with ``transaction.atomic`` open on it.

``fencepost.django.outbox`` finds the connection by itself; ``Outbox.add(connections["default"], ...)`` is the same.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionProxy
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.mysql import mysqldb
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.engine import Dialect

from fencepost.errors import ConfigurationError, NoTransaction
from fencepost.sql.outbox import drawn_rows
from fencepost.sql.transaction import Blocking, Call, Joined, Rows

MYSQL = "mysql"
"""What Django calls MariaDB, too."""

_DIALECTS: dict[str, Callable[..., Any]] = {
    MYSQL: mysqldb.dialect,
    "postgresql": psycopg.dialect,
    "sqlite": sqlite.dialect,
}
"""By Django's word for the kind of a database; its cursors take parameters as %s or %(name)s, whatever the driver."""


def join(tx: object) -> Joined | None:
    """The transaction that is open on the connection. Raises NoTransaction, or ConfigurationError for other kinds of
    databases.
    """
    if isinstance(tx, ConnectionProxy):  # django.db.connection
        tx = connections["default"]
    if not isinstance(tx, BaseDatabaseWrapper):
        return None
    known = dialect(tx.vendor)
    check(tx)
    return Blocking(known, partial(_execute, tx))


@cache
def dialect(vendor: str) -> Dialect:
    """How statements are written for a kind of database. Raises ConfigurationError where an outbox cannot be there."""
    make = _DIALECTS.get(vendor)
    if make is None:
        raise ConfigurationError(
            f"an outbox cannot be kept in Django's {vendor!r}", remedy=f"use one of {', '.join(sorted(_DIALECTS))}"
        )
    found: Dialect = make(paramstyle="pyformat" if vendor == "postgresql" else "format")
    return found


def check(connection: BaseDatabaseWrapper) -> None:
    """Raise NoTransaction where a statement would be committed by itself."""
    _check_thread()
    if _is_open(connection):
        return
    others = [each.alias for each in connections.all(initialized_only=True) if each.connection and _is_open(each)]
    hint = f"; one is open on {others[0]!r}: pass using={others[0]!r} if that is meant" if others else ""
    raise NoTransaction(
        f"Django's connection {connection.alias!r} has no transaction open",
        remedy=f"add inside `with transaction.atomic({_argument(connection.alias)}):`{hint}",
    )


def _check_thread() -> None:
    """Django's transactions belong to a thread, and are not awaited."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE"):
        raise NoTransaction(
            "Django has no transactions in a coroutine",
            remedy="put the transaction into a function, and `await sync_to_async(function)(...)`",
        )


def _is_open(connection: BaseDatabaseWrapper) -> bool:
    """What a TestCase has open does not count: without its own ``atomic`` the code would fail outside of the test."""
    if not connection.in_atomic_block:
        return not connection.get_autocommit()
    return not all(getattr(block, "_from_testcase", False) for block in connection.atomic_blocks)


def _argument(alias: str) -> str:
    return "" if alias == "default" else f"using={alias!r}"


def _execute(connection: BaseDatabaseWrapper, call: Call) -> Rows:
    """An error ends the block, as it does in ``Model.save``: a deadlock in MariaDB has undone all of the transaction,
    and what came after it would be committed alone.
    """
    statement = call.statement
    values = statement.row(call.values) if statement.positional else statement.mapping(call.values)
    with transaction.mark_for_rollback_on_error(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(statement.text, values)
        if cursor.description:
            rows: Rows = cursor.fetchall()
            return rows
        return drawn_rows(cursor.lastrowid) if connection.vendor == MYSQL else []
