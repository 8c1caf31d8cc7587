"""How a flow of whoever looks after parked messages is run on a connection."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from fencepost.flows import run_async
from fencepost.sql.transaction import Call, Rows, Work

T = TypeVar("T")


async def run(connection: AsyncConnection, work: Work[T]) -> T:
    """In one transaction."""

    async def execute(call: Call) -> Rows:
        said = call.statement
        values = tuple(said.row(call.values)) if said.positional else said.mapping(call.values)
        result = await connection.exec_driver_sql(said.text, values)
        return result.fetchall() if result.returns_rows else ()

    async with connection.begin():
        return await run_async(work, execute)
