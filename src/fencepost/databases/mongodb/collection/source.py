"""The source: opens sessions, after a look whether the server, the collections and the rights are what is needed."""

from __future__ import annotations

from fencepost.databases.mongodb import indexes
from fencepost.databases.mongodb.collection.names import Names, State
from fencepost.databases.mongodb.collection.parked import CollectionParked
from fencepost.databases.mongodb.collection.schema import needed
from fencepost.databases.mongodb.collection.session import CollectionSession
from fencepost.databases.mongodb.connection import Line
from fencepost.databases.mongodb.deployment import check_transactions
from fencepost.databases.mongodb.source import MongoSource
from fencepost.errors import ConfigurationError, SchemaMissing
from fencepost.mongo.client import Client, now_us
from fencepost.mongo.faults import APPLY
from fencepost.ports import Backlog, DatabaseOptions

_NO_STREAMS = (
    "changes cannot be watched here, so an idle relay looks four times a second: give its user the right"
    " changeStream (the role read has it)"
)
_NOBODY = ""


class CollectionSource(MongoSource):
    """An outbox that a relay reads."""

    without_streams = _NO_STREAMS

    def __init__(self, options: DatabaseOptions) -> None:
        super().__init__(options)
        self._names = Names(options.prefix)

    def _session(self, line: Line) -> CollectionSession:
        return CollectionSession(line, self._names)

    def _store(self, line: Line) -> CollectionParked:
        return CollectionParked(line, self._names, self._outbox.options.clock)

    async def _check(self, line: Line) -> None:
        outbox, names, database = self._outbox, self._names, line.database
        check_transactions(outbox, line.client)
        absent = await indexes.missing(database, needed(names.prefix))
        if absent:
            raise SchemaMissing(f"{outbox.place} has no {', '.join(absent)}", remedy=APPLY)
        strange = await indexes.foreign_collations(database, needed(names.prefix))
        if strange:
            raise ConfigurationError(
                f"{outbox.place}: {', '.join(strange)} compares texts by the rules of a language",
                remedy="make the collection without a collation: keys must be told apart byte by byte",
            )
        # Nothing is changed by these, but they are refused where the rights are lacking.
        nobody = {"_id": _NOBODY}
        for collection in (database[names.outbox], database[names.parked]):
            await collection.find_one(nobody)
            await collection.update_one(nobody, {"$set": {"attempts": 0}})
            await collection.delete_one(nobody)

    async def _backlog(self, client: Client) -> Backlog:
        database = self._outbox.database(client)
        outbox = database[self._names.outbox]
        time_us = await now_us(client)
        waiting = {"$or": [{"state": int(State.PENDING)}, {"available_us": {"$lte": time_us}}]}
        group = {"$group": {"_id": None, "count": {"$sum": 1}, "oldest_us": {"$min": "$occurred_us"}}}
        (found,) = await (await outbox.aggregate([{"$match": waiting}, group])).to_list() or ({},)
        oldest_us = found.get("oldest_us")
        return Backlog(
            pending=found.get("count", 0),
            delayed=await outbox.count_documents({"available_us": {"$gt": time_us}}),
            parked=await database[self._names.parked].estimated_document_count(),
            oldest_age_s=None if oldest_us is None else max(0.0, (time_us - oldest_us) / 1e6),
        )
