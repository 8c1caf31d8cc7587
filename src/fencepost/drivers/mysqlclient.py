"""mysqlclient (MySQLdb): a connection to a MariaDB or MySQL, whatever its cursors are set to."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

from MySQLdb.connections import Connection
from MySQLdb.cursors import Cursor
from sqlalchemy.dialects.mysql.mysqldb import dialect

from fencepost.errors import NoTransaction
from fencepost.sql.outbox import drawn_rows
from fencepost.sql.transaction import Blocking, Call, Joined, Rows

_DIALECT = dialect()


def join(tx: object) -> Joined | None:
    """The transaction that is open on the connection, or that its next statement begins."""
    if not isinstance(tx, Connection):
        return None
    if tx.get_autocommit() and not _has_begun(tx):
        raise NoTransaction(
            "the mysqlclient connection is in autocommit mode and has no transaction open, as far as can be told",
            remedy="call connection.autocommit(False); with MariaDB, connection.begin() will do",
        )
    return Blocking(_DIALECT, partial(_execute, tx))


def _has_begun(connection: Any) -> bool:
    """Whether a transaction was begun in autocommit mode. This library does not tell, and only MariaDB can be asked."""
    if "MariaDB" not in connection.get_server_info():
        return False
    with closing(Cursor(connection)) as cursor:
        cursor.execute("SELECT @@in_transaction")
        return bool(cursor.fetchone()[0])


def _execute(connection: Any, call: Call) -> Rows:
    with closing(Cursor(connection)) as cursor:
        cursor.execute(call.statement.text, call.statement.row(call.values))
        rows: Rows = cursor.fetchall() if cursor.description else drawn_rows(cursor.lastrowid)
        return rows
