"""The application of a torture: orders in transactions of every kind, some of which end badly."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

from fencepost.clock import Clock
from fencepost.demo.chance import Chance
from fencepost.demo.databases import Database
from fencepost.demo.orders import Orders
from fencepost.errors import RetryError

CUSTOMERS = 60
HOT = 3
_HOT_SHARE = 0.4
_ROLLBACK = 0.1
_SAVEPOINT = 0.1
_SEVERAL = 0.1
_BULK = 0.003
_BULK_ORDERS = 300
_LATE = 0.01
_BEHIND_MAX_S = 0.5
_AFTER_FAILURE_S = 0.2


@dataclass(frozen=True, slots=True)
class Plan:
    """One transaction: an order for each of ``customers``, and of ``undone``, which a savepoint takes back. All take
    customers in the same order, so that no two of them wait for each other for ever.
    """

    customers: tuple[str, ...]
    undone: tuple[str, ...]
    keep: bool
    open_s: float
    cents: int


class Writers:
    """Place orders until stopped. ``done`` counts: committed, rolled back, late, savepoints, failed, orders.
    ``tried`` are the ids of messages whose transaction was to be committed, whether it was or not.
    """

    def __init__(self, orders: Orders, database: Database, late_max_s: float, clock: Clock) -> None:
        self._orders, self._database, self._clock = orders, database, clock
        self._late_max_s = late_max_s
        self.done: Counter[str] = Counter()
        self.tried: set[str] = set()

    async def write(self, rate_per_s: float, chance: Chance, stop: asyncio.Event) -> None:
        """One writer, ``rate_per_s`` transactions a second at most, until ``stop``. A database that is away is waited
        for.
        """
        due = self._clock.monotonic()
        while not stop.is_set():
            plan = draw(chance, self._late_max_s)
            try:
                await self._transaction(plan)
            except RetryError:
                # It may have been committed all the same: the table of orders says so at the end.
                self.done["failed"] += 1
                await self._clock.sleep(_AFTER_FAILURE_S)
            due = max(due + 1 / rate_per_s, self._clock.monotonic() - _BEHIND_MAX_S)
            await self._clock.sleep(due - self._clock.monotonic())

    async def _transaction(self, plan: Plan) -> None:
        undone = plan.undone if self._orders.savepoints else ()

        def work(connection: Any) -> None:
            ids = [self._orders.place(connection, customer, plan.cents) for customer in plan.customers]
            self.tried.update(ids if plan.keep else ())
            if undone:
                with connection.begin_nested() as savepoint:
                    for customer in undone:
                        self._orders.place(connection, customer, plan.cents)
                    savepoint.rollback()

        await self._database.run(work, keep=plan.keep, open_s=plan.open_s)
        self.done["committed" if plan.keep else "rolled back"] += 1
        self.done["orders"] += len(plan.customers) if plan.keep else 0
        self.done["with a savepoint rolled back"] += bool(undone)
        self.done["committed late"] += plan.keep and plan.open_s > 0


def draw(chance: Chance, late_max_s: float) -> Plan:
    """The next transaction. One that commits late leaves the hot customers alone: all others would wait for it."""
    late = chance.happens(_LATE)
    count = _BULK_ORDERS if chance.happens(_BULK) else 2 + chance.below(4) if chance.happens(_SEVERAL) else 1
    customers = sorted(_customer(chance, hot=not late) for _ in range(count))
    undone = [max(_customer(chance), customers[-1]) for _ in range(1 + chance.below(2))]
    return Plan(
        customers=tuple(customers),
        undone=tuple(sorted(undone)) if chance.happens(_SAVEPOINT) else (),
        keep=not chance.happens(_ROLLBACK),
        open_s=chance.between(0.1, 1.0) * late_max_s if late else 0.0,
        cents=100 + chance.below(9900),
    )


def _customer(chance: Chance, *, hot: bool = True) -> str:
    """A few are hot."""
    number = chance.below(HOT) if hot and chance.happens(_HOT_SHARE) else HOT + chance.below(CUSTOMERS - HOT)
    return f"customer-{number:02}"
