"""An application with an outbox in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

from fencepost.databases import memory
from fencepost.message import Message
from fencepost.ports import DatabaseOptions
from fencepost.testing.harness import Parked, Transaction


class _MemoryTransaction:
    def __init__(self, transaction: memory.Transaction) -> None:
        self._transaction = transaction

    async def add(self, *messages: Message) -> Sequence[Message]:
        return [self._transaction.add(message) for message in messages]


class MemoryWriter:
    """``fencepost.testing.harness.Writer`` says what each call promises."""

    concurrent = True

    def __init__(self, database: memory.MemoryDatabase) -> None:
        self._database = database
        self._backup = database.snapshot()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        with self._database.transaction() as transaction:
            yield _MemoryTransaction(transaction)

    async def parked(self) -> Sequence[Parked]:
        return [Parked(row.message, row.reason) for row in self._database.parked]

    async def last_error(self, message_id: str) -> str | None:
        return next(row.last_error for row in self._database.rows if row.message.id == message_id)

    async def connections(self) -> Collection[str] | None:
        return {str(id(session)) for session in self._database.sessions}

    async def cut(self, connections: Collection[str]) -> None:
        for session in self._database.sessions:
            if str(id(session)) in connections:
                session.end()

    async def back_up(self) -> None:
        self._backup = self._database.snapshot()

    async def put_back(self) -> None:
        self._database.fall_back(self._backup)

    async def close(self) -> None:
        memory.forget(self._database.url)


def writer(options: DatabaseOptions) -> MemoryWriter:
    """The writer of one outbox."""
    return MemoryWriter(memory.database(options.url, schema=options.schema, prefix=options.prefix, clock=options.clock))
