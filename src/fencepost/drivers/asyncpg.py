"""asyncpg: a connection, or what its pool hands out."""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy
from sqlalchemy.dialects.postgresql.asyncpg import dialect

from fencepost.errors import NoTransaction
from fencepost.sql.transaction import Awaiting, Call, Joined, Rows

Connection: TypeAlias = asyncpg.Connection | PoolConnectionProxy

_DIALECT = dialect()  # type: ignore[no-untyped-call]


def join(tx: object) -> Joined | None:
    """The transaction that is open on the connection."""
    if not isinstance(tx, Connection):
        return None
    if not tx.is_in_transaction():
        raise NoTransaction(
            "the asyncpg connection has no transaction open", remedy="add inside `async with connection.transaction():`"
        )
    return Awaiting(_DIALECT, partial(_execute, tx))


async def _execute(connection: Connection, call: Call) -> Rows:
    rows: Rows = await connection.fetch(call.statement.text, *call.statement.row(call.values))
    return rows
