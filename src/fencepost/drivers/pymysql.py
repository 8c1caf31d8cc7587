"""PyMySQL: a connection to a MariaDB or MySQL, whatever its cursors are set to."""

from __future__ import annotations

from functools import partial
from typing import Any

from pymysql.connections import Connection
from pymysql.constants import SERVER_STATUS
from pymysql.cursors import Cursor
from sqlalchemy.dialects.mysql.pymysql import dialect

from fencepost.errors import NoTransaction
from fencepost.sql.outbox import drawn_rows
from fencepost.sql.transaction import Blocking, Call, Joined, Rows

_DIALECT = dialect()


def join(tx: object) -> Joined | None:
    """The transaction that is open on the connection, or that its next statement begins."""
    if not isinstance(tx, Connection):
        return None
    open_already = tx.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS  # type: ignore[attr-defined]
    if tx.get_autocommit() and not open_already:
        raise NoTransaction(
            "the PyMySQL connection is in autocommit mode and has no transaction open",
            remedy="call connection.begin() first",
        )
    return Blocking(_DIALECT, partial(_execute, tx))


def _execute(connection: Connection[Any], call: Call) -> Rows:
    with Cursor(connection) as cursor:
        cursor.execute(call.statement.text, call.statement.row(call.values))
        return cursor.fetchall() if cursor.description else drawn_rows(cursor.lastrowid)
