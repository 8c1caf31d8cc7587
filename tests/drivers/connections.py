"""What tests of several connections at once share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fencepost.message import Message
from fencepost.outbox import AsyncOutbox, NewMessage

DEADLINE_S = 30.0

Connect = Callable[[], Awaitable[Any]]
Add = Callable[[AsyncOutbox, Any, str], Coroutine[Any, Any, Message]]


async def begun(connection: Any) -> Any:
    """A transaction that is open on the connection."""
    transaction = connection.transaction()
    await transaction.start()
    return transaction


async def blocked(watcher: Any, connection: Any) -> None:
    """Return when the connection waits for a lock of somebody else."""
    query = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1"
    async with asyncio.timeout(DEADLINE_S):
        while not await watcher.fetchval(query, connection.get_server_pid()):
            await asyncio.sleep(0.005)


async def add_one(outbox: AsyncOutbox, tx: Any, key: str) -> Message:
    return await outbox.add(tx, "orders", 0, key=key)


async def add_batch(outbox: AsyncOutbox, tx: Any, key: str) -> Message:
    return (await outbox.add_all(tx, [NewMessage("orders", 0), NewMessage("orders", 0, key=key)]))[1]
