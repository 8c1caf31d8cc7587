"""The applications: each commits transactions of its own, some late, some never, and meets the same network."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from fencepost.databases.memory import Transaction
from fencepost.errors import Contention, RetryError
from fencepost.message import Message
from fencepost.testing.simulation.clock import VirtualClock
from fencepost.testing.simulation.loop import Process
from fencepost.testing.simulation.network import Connection
from fencepost.testing.simulation.scenario import BAD, GOOD, Scenario
from fencepost.testing.simulation.servers import Servers

T = TypeVar("T")

_TRIES = 5


class Application:
    """One writer. ``done`` once it has made all of its transactions."""

    def __init__(
        self, process: Process, servers: Servers, scenario: Scenario, clock: VirtualClock, chance: random.Random
    ) -> None:
        self.process, self.done = process, False
        self.clock = clock
        self._servers, self._scenario, self._chance = servers, scenario, chance

    async def run(self) -> None:
        """Commit, roll back, or be cut off; again and again."""
        pause_s = self._scenario.trouble_s / self._scenario.transactions
        for _ in range(self._scenario.transactions):
            await self.clock.sleep(self._chance.uniform(0, 2 * pause_s))
            await self._patiently([self._message() for _ in range(self._chance.choice([1, 1, 2, 4]))])
        self.done = True

    async def _patiently(self, messages: list[Message]) -> None:
        """A transaction that was not committed for certain is tried again, with messages of the same ids.

        One that nobody knows about is not: it may have been committed.
        """
        for _ in range(_TRIES):
            try:
                return await self._once(messages)
            except Contention:
                await self.clock.sleep(self._chance.uniform(0.05, 0.5))
            except RetryError:
                return None
        return None

    async def _once(self, messages: list[Message]) -> None:
        connection = self._servers.connect(self.process, self._servers.database)
        try:
            await self._transact(connection, messages)
        finally:
            connection.close()

    async def _transact(self, connection: Connection, messages: list[Message]) -> None:
        chance = self._chance
        transaction = await connection.call("begin", _at_once(lambda: self._begin(connection)))
        added = []
        for message in messages:
            added.append(await connection.call("add", _at_once(_adding(transaction, message))))
            await self.clock.sleep(chance.choice([0.0, 0.0, 0.01, 0.1]))
        await self.clock.sleep(chance.choice([0.0, 0.0, 0.0, 0.2, 2.0]))  # a transaction that commits late
        if chance.random() < 0.15:
            await connection.call("rollback", _at_once(transaction.rollback))
        else:
            await connection.call("commit", _at_once(lambda: self._commit(transaction, added)))

    def _begin(self, connection: Connection) -> Transaction:
        transaction = self._servers.rows.transaction()
        connection.closed = transaction.rollback
        return transaction

    def _commit(self, transaction: Transaction, added: list[Message]) -> None:
        transaction.commit()
        self._servers.record.commit(added, {row.message.id: row.message.position for row in self._servers.rows.rows})

    def _message(self) -> Message:
        chance, clock, scenario = self._chance, self.clock, self._scenario
        delay = timedelta(seconds=chance.uniform(0.1, 3.0)) if chance.random() < scenario.delayed else None
        now = clock.now()
        return Message(
            id=clock.new_id(),
            topic=BAD if chance.random() < scenario.poison else GOOD,
            key=chance.choice([*(f"k{n}" for n in range(scenario.keys)), None]),
            payload=chance.randbytes(4),
            occurred_at=now,
            available_at=None if delay is None else self._servers.clock.now() + delay,
        )


def _adding(transaction: Transaction, message: Message) -> Callable[[], Message]:
    return lambda: transaction.add(message)


def _at_once(effect: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """Something that the server does in one step."""

    async def run() -> T:
        return effect()

    return run
