"""The business of a demonstration: orders, each added with its message in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.clock import Clock
from fencepost.demo.chance import Chance
from fencepost.demo.databases import Database
from fencepost.demo.ledgers import Ledger
from fencepost.history import Entry

CUSTOMERS = 50
ROLLBACK_SHARE = 0.1
_LATE_MAX_S = 0.5  # a writer that fell behind catches up for so long, and no longer


@dataclass(slots=True)
class Tally:
    """What the writers have done. ``begun_at`` is when each message's transaction began (monotonic seconds)."""

    committed: int = 0
    rolled_back: int = 0
    begun_at: dict[str, float] = field(default_factory=dict)


class Orders:
    """The orders of one demonstration."""

    def __init__(self, database: Database, ledger: Ledger, clock: Clock) -> None:
        self._database, self._ledger, self._clock = database, ledger, clock
        self.tally = Tally()

    @property
    def savepoints(self) -> bool:
        """Whether a part of a transaction can be taken back."""
        return self._ledger.savepoints

    async def create(self) -> None:
        """Make room for them."""
        await self._ledger.create()

    async def drop(self) -> None:
        """Remove them, and the outbox."""
        await self._ledger.drop()

    async def write(self, rate_per_s: float, chance: Chance, stop: asyncio.Event) -> None:
        """Place orders, each in a transaction of its own, until ``stop``; some are rolled back at the last moment."""
        due = self._clock.monotonic()
        while not stop.is_set():
            await self._order(chance)
            due = max(due + 1 / rate_per_s, self._clock.monotonic() - _LATE_MAX_S)
            await self._clock.sleep(due - self._clock.monotonic())

    async def _order(self, chance: Chance) -> None:
        begun, keep = self._clock.monotonic(), not chance.happens(ROLLBACK_SHARE)
        customer, cents = f"customer-{chance.below(CUSTOMERS)}", 100 + chance.below(9900)

        def work(transaction: Any) -> None:
            message_id = self.place(transaction, customer, cents)
            self.tally.begun_at[message_id] = begun  # known before a reader can see the message

        await self._database.run(work, keep=keep)
        if keep:
            self.tally.committed += 1
        else:
            self.tally.rolled_back += 1

    def place(self, transaction: Any, customer: str, cents: int) -> str:
        """An order and its message, in the transaction that is open; the id that both have."""
        return self._ledger.place(transaction, customer, cents)

    async def committed(self) -> Sequence[Entry]:
        """Every order that was committed, as the message that should have been published for it."""
        return await self._ledger.committed()
