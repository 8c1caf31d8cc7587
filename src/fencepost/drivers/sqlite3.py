"""The standard library's sqlite3, and aiosqlite, which runs the same connection on a thread of its own."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects.sqlite.pysqlite import dialect

from fencepost.errors import NoTransaction
from fencepost.sql.transaction import Awaiting, Blocking, Call, Joined, Rows

if TYPE_CHECKING:
    import aiosqlite

_DIALECT = dialect()


def join(tx: object) -> Joined | None:
    """The transaction that is open on the connection, or that the module begins by itself at the next INSERT."""
    if isinstance(tx, sqlite3.Connection):
        _check(tx)
        return Blocking(_DIALECT, partial(_execute, tx))
    return _join_aiosqlite(tx) if type(tx).__module__.partition(".")[0] == "aiosqlite" else None


def _join_aiosqlite(tx: object) -> Joined | None:
    import aiosqlite  # here, because blocking connections do without it

    if not isinstance(tx, aiosqlite.Connection):
        return None
    _check(tx)
    return Awaiting(_DIALECT, partial(_execute_async, tx))


def _check(connection: Any) -> None:
    # Python 3.12 has an attribute: True, False (always in a transaction), or -1 for "as isolation_level says".
    begins = connection.isolation_level is not None and getattr(connection, "autocommit", -1) is not True
    if not begins and not connection.in_transaction:
        raise NoTransaction(
            "the SQLite connection commits each statement by itself and has no transaction open",
            remedy="execute BEGIN IMMEDIATE first",
        )


def _execute(connection: sqlite3.Connection, call: Call) -> Rows:
    cursor = connection.cursor()
    cursor.row_factory = None
    try:
        return cursor.execute(call.statement.text, call.statement.row(call.values)).fetchall()
    finally:
        cursor.close()


async def _execute_async(connection: aiosqlite.Connection, call: Call) -> Rows:
    async with connection.cursor() as cursor:
        cursor.row_factory = None
        await cursor.execute(call.statement.text, call.statement.row(call.values))
        return list(await cursor.fetchall())
