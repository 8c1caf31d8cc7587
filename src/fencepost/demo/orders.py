"""The business of a demonstration: orders, each added with its message in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from fencepost.clock import Clock
from fencepost.demo.chance import Chance
from fencepost.demo.databases import Database
from fencepost.history import Entry
from fencepost.outbox import Outbox

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
    """The table of orders under a prefix, and the outbox beside it."""

    def __init__(self, database: Database, schema: str | None, prefix: str, topic: str, clock: Clock) -> None:
        self._database, self._topic, self._clock = database, topic, clock
        self._outbox = Outbox(schema=schema, prefix=prefix)
        self._metadata = sa.MetaData(schema=schema)
        self._table = sa.Table(
            f"{prefix}orders",
            self._metadata,
            sa.Column("id", sa.String(36), primary_key=True),
            sa.Column("customer", sa.String(40), nullable=False),
            sa.Column("version", sa.BigInteger, nullable=False),
            sa.Column("cents", sa.Integer, nullable=False),
        )
        self.tally = Tally()

    async def create(self) -> None:
        """Create the table."""
        await self._database.run(self._metadata.create_all)

    async def drop(self) -> None:
        """Drop the table."""
        await self._database.run(self._metadata.drop_all)

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

        def work(connection: sa.Connection) -> None:
            message_id = self.place(connection, customer, cents)
            self.tally.begun_at[message_id] = begun  # known before a reader can see the message

        await self._database.run(work, keep=keep)
        if keep:
            self.tally.committed += 1
        else:
            self.tally.rolled_back += 1

    def place(self, connection: sa.Connection, customer: str, cents: int) -> str:
        """An order and its message, in the transaction that is open; the id that both have."""
        payload = {"customer": customer, "cents": cents}
        message = self._outbox.add(connection, self._topic, payload, key=customer, type="order.placed")
        order = {"id": message.id, "customer": customer, "version": message.version, "cents": cents}
        connection.execute(self._table.insert().values(order))
        return message.id

    async def committed(self) -> Sequence[Entry]:
        """Every order that is in the table, as the message that should have been published for it."""
        t = self._table.c
        rows = await self._database.run(lambda c: c.execute(sa.select(t.id, t.customer, t.version)).all())
        return [Entry(id_, customer, version) for id_, customer, version in rows]
