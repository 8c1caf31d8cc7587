"""asyncmy: a connection to a MariaDB or MySQL, or what its pool hands out, whatever its cursors are set to."""

from __future__ import annotations

from functools import partial
from typing import Any

from asyncmy.connection import Connection
from asyncmy.cursors import Cursor
from sqlalchemy.dialects.mysql.asyncmy import dialect

from fencepost.errors import NoTransaction
from fencepost.sql.outbox import drawn_rows
from fencepost.sql.transaction import Awaiting, Call, Joined, Rows

_DIALECT = dialect()


def join(tx: object) -> Joined | None:
    """The transaction that is open on the connection, or that its next statement begins."""
    if not isinstance(tx, Connection):
        return None
    if tx.get_autocommit() and not tx.get_transaction_status():
        raise NoTransaction(
            "the asyncmy connection is in autocommit mode and has no transaction open",
            remedy="await connection.begin() first",
        )
    return Awaiting(_DIALECT, partial(_execute, tx))


async def _execute(connection: Any, call: Call) -> Rows:
    async with Cursor(connection) as cursor:
        await cursor.execute(call.statement.text, call.statement.row(call.values))
        rows: Rows = await cursor.fetchall() if cursor.description else drawn_rows(cursor.lastrowid)
        return rows
