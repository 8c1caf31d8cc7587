"""psycopg 3: a connection, blocking or asynchronous, whatever its cursors and rows are set to."""

from __future__ import annotations

from functools import partial
from typing import Any

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from sqlalchemy.dialects.postgresql.psycopg import dialect

from fencepost.errors import NoTransaction
from fencepost.sql.transaction import Awaiting, Blocking, Call, Joined, Rows

_DIALECT = dialect()  # type: ignore[no-untyped-call]


def join(tx: object) -> Joined | None:
    """The transaction that is open on the connection, or that its next statement begins."""
    if not isinstance(tx, Connection | AsyncConnection):
        return None
    if tx.autocommit and tx.info.transaction_status is TransactionStatus.IDLE:
        raise NoTransaction(
            "the psycopg connection is in autocommit mode and has no transaction open",
            remedy="add inside `with connection.transaction():`",
        )
    if isinstance(tx, AsyncConnection):
        return Awaiting(_DIALECT, partial(_execute_async, tx))
    return Blocking(_DIALECT, partial(_execute, tx))


def _execute(connection: Connection[Any], call: Call) -> Rows:
    with Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(call.statement.text.encode(), call.statement.mapping(call.values))
        return cursor.fetchall()


async def _execute_async(connection: AsyncConnection[Any], call: Call) -> Rows:
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(call.statement.text.encode(), call.statement.mapping(call.values))
        return await cursor.fetchall()
