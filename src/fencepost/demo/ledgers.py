"""Where the orders of a demonstration are kept: in the application's own database, beside the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import sqlalchemy as sa

from fencepost import plugins
from fencepost.config.records import DatabaseConfig
from fencepost.demo.databases import Database
from fencepost.errors import FencepostError
from fencepost.history import Entry
from fencepost.outbox import Outbox
from fencepost.sql.tables import tables


class Ledger(Protocol):
    """The orders. ``place`` gets the transaction that ``Database.run`` has opened."""

    @property
    def savepoints(self) -> bool:
        """Whether a part of a transaction can be taken back."""
        ...

    def place(self, transaction: Any, customer: str, cents: int) -> str:
        """Add an order and its message to the transaction; return the id that both have."""
        ...

    async def create(self) -> None:
        """Make room for them."""
        ...

    async def drop(self) -> None:
        """Remove them, and the outbox. What cannot be removed stays."""
        ...

    async def committed(self) -> Sequence[Entry]:
        """Every order that was committed, as the message that should have been published for it."""
        ...


def ledger(database: Database, section: DatabaseConfig, topic: str) -> Ledger:
    """The ledger in the database of a configuration."""
    name = plugins.name_of("database", section.url)
    if name == "dynamodb":
        from fencepost.demo.dynamodb_ledger import DynamoLedger

        return DynamoLedger(section.url, section.prefix, topic)
    if name in {"mongodb", "mongodb-embedded"}:
        from fencepost.demo.mongodb_ledger import MongoLedger

        return MongoLedger(section.url, section.prefix, topic)
    if name == "redis":
        from fencepost.demo.redis_ledger import RedisLedger

        return RedisLedger(section.url, section.prefix, topic)
    return SqlLedger(database, section.schema, section.prefix, topic)


class SqlLedger:
    """A table."""

    savepoints = True

    def __init__(self, database: Database, schema: str | None, prefix: str, topic: str) -> None:
        self._database, self._topic = database, topic
        self._outbox = Outbox(schema=schema, prefix=prefix)
        self._beside = tables(schema=schema, prefix=prefix).metadata
        self._metadata = sa.MetaData(schema=schema)
        self._table = sa.Table(
            f"{prefix}orders",
            self._metadata,
            sa.Column("id", sa.String(36), primary_key=True),
            sa.Column("customer", sa.String(40), nullable=False),
            sa.Column("version", sa.BigInteger, nullable=False),
            sa.Column("cents", sa.Integer, nullable=False),
        )

    def place(self, transaction: sa.Connection, customer: str, cents: int) -> str:
        payload = {"customer": customer, "cents": cents}
        message = self._outbox.add(transaction, self._topic, payload, key=customer, type="order.placed")
        order = {"id": message.id, "customer": customer, "version": message.version, "cents": cents}
        transaction.execute(self._table.insert().values(order))
        return message.id

    async def create(self) -> None:
        await self._database.run(self._metadata.create_all)

    async def drop(self) -> None:
        with suppress(FencepostError):
            await self._database.run(self._metadata.drop_all)
            await self._database.run(self._beside.drop_all)

    async def committed(self) -> Sequence[Entry]:
        t = self._table.c
        rows = await self._database.run(lambda c: c.execute(sa.select(t.id, t.customer, t.version)).all())
        return [Entry(id_, customer, version) for id_, customer, version in rows]
