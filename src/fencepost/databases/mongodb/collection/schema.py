"""The collections and indexes of an outbox of its own."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.databases.mongodb import indexes
from fencepost.databases.mongodb.collection.names import DUE_INDEX, PENDING_INDEX, Names
from fencepost.databases.mongodb.connection import Outbox
from fencepost.databases.mongodb.deployment import check_transactions
from fencepost.databases.mongodb.indexes import Index, Needed
from fencepost.mongo.client import Client, reach
from fencepost.ports import DatabaseOptions


def needed(prefix: str) -> list[Needed]:
    """What must be there."""
    names = Names(prefix)
    pending = Index(PENDING_INDEX, [("state", 1), ("_id", 1), ("slot", 1)])
    due = Index(DUE_INDEX, [("available_us", 1)], sparse=True)
    return [Needed(names.outbox, [pending, due]), *(Needed(name) for name in (names.entity, names.parked, names.lease))]


class CollectionSchema:
    """``fencepost.ports.Schema`` says what each call promises. Statements are for mongosh."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)
        self._needed = needed(options.prefix)

    def statements(self) -> Sequence[str]:
        return [statement for one in self._needed for statement in one.statements()]

    async def apply(self) -> Sequence[str]:
        return await self._outbox.in_time(self._apply)

    async def missing(self) -> Sequence[str]:
        return await self._outbox.in_time(self._missing)

    async def _apply(self, client: Client) -> list[str]:
        await reach(client)
        check_transactions(self._outbox, client)
        return await indexes.apply(self._outbox.database(client), self._needed)

    async def _missing(self, client: Client) -> list[str]:
        await reach(client)
        check_transactions(self._outbox, client)  # before anybody makes what would be of no use
        return await indexes.missing(self._outbox.database(client), self._needed)
