"""How a flow of whoever looks after parked messages is run on a connection."""

from __future__ import annotations

from typing import Any, TypeVar

from fencepost.flows import run_async
from fencepost.sql.transaction import Call, Rows, Work

T = TypeVar("T")


async def run(connection: Any, work: Work[T]) -> T:
    """In one transaction."""

    async def execute(call: Call) -> Rows:
        rows: Rows = await connection.fetch(call.statement.text, *call.statement.row(call.values))
        return rows

    async with connection.transaction():
        return await run_async(work, execute)
