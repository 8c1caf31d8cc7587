"""How a flow of whoever looks after parked messages is run on a connection."""

from __future__ import annotations

from typing import TypeVar

from fencepost.databases.mariadb.connection import Connection
from fencepost.flows import run_async
from fencepost.sql.transaction import Call, Rows, Work

T = TypeVar("T")


async def run(connection: Connection, work: Work[T]) -> T:
    """In one transaction. What raises is rolled back here, or by the server, once the connection has gone."""

    async def execute(call: Call) -> Rows:
        return await connection.drawn(call.statement.text, *call.statement.row(call.values))

    await connection.say("BEGIN")
    try:
        result = await run_async(work, execute)
    except Exception:
        await connection.say("ROLLBACK")
        raise
    await connection.say("COMMIT")
    return result
