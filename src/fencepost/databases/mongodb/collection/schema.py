"""The collections and indexes of an outbox of its own."""

from __future__ import annotations

from fencepost.databases.mongodb.collection.names import DUE_INDEX, PENDING_INDEX, Names
from fencepost.databases.mongodb.connection import Outbox
from fencepost.databases.mongodb.deployment import check_transactions
from fencepost.databases.mongodb.indexes import Index, Needed
from fencepost.databases.mongodb.schema import MongoSchema
from fencepost.ports import DatabaseOptions


def needed(prefix: str) -> list[Needed]:
    """What must be there."""
    names = Names(prefix)
    pending = Index(PENDING_INDEX, [("state", 1), ("_id", 1), ("slot", 1)])
    due = Index(DUE_INDEX, [("available_us", 1)], sparse=True)
    return [Needed(names.outbox, [pending, due]), *(Needed(name) for name in (names.entity, names.parked, names.lease))]


class CollectionSchema(MongoSchema):
    """An outbox that needs transactions."""

    def __init__(self, options: DatabaseOptions) -> None:
        super().__init__(Outbox(options), needed(options.prefix), check_transactions)
