"""The source: opens sessions, after a look whether the server, the indexes and the rights are what is needed."""

from __future__ import annotations

from typing import Any

from fencepost.databases.mongodb import indexes
from fencepost.databases.mongodb.connection import Line
from fencepost.databases.mongodb.deployment import check_writable
from fencepost.databases.mongodb.embedded.fields import Field
from fencepost.databases.mongodb.embedded.parked import EmbeddedParked
from fencepost.databases.mongodb.embedded.session import EmbeddedSession
from fencepost.databases.mongodb.source import MongoSource
from fencepost.errors import SchemaMissing
from fencepost.mongo.client import Client, Collection, now_us
from fencepost.mongo.faults import APPLY
from fencepost.ports import Backlog, DatabaseOptions

_NO_STREAMS = (
    "changes cannot be watched here, so an idle relay looks four times a second: a replica set has change streams, and"
    " its user needs the right changeStream on the database (the role read has it)"
)


class EmbeddedSource(MongoSource):
    """An outbox that a relay reads."""

    without_streams = _NO_STREAMS

    def __init__(self, options: DatabaseOptions) -> None:
        super().__init__(options)
        self._field = Field(options.prefix)

    def _session(self, line: Line) -> EmbeddedSession:
        return EmbeddedSession(line, self._field)

    def _store(self, line: Line) -> EmbeddedParked:
        return EmbeddedParked(line, self._field)

    async def _check(self, line: Line) -> None:
        check_writable(self._outbox, line.client)
        collections = self._outbox.address.collections
        absent = await indexes.missing(line.database, self._field.needed(collections))
        if absent:
            raise SchemaMissing(f"{self._outbox.place} has no {', '.join(absent)}", remedy=APPLY)
        for name in collections:
            # Nothing is changed by it, but it is refused where the rights are lacking.
            nobody = {"_id": "", self._field.path("pushed"): -1}
            await line.database[name].find_one(nobody)
            await line.database[name].update_one(nobody, {"$set": {self._field.path("pushed"): 0}})

    async def _backlog(self, client: Client) -> Backlog:
        time_us, database = await now_us(client), self._outbox.database(client)
        pending = delayed = parked = 0
        oldest: list[int] = []
        for name in self._outbox.address.collections:
            for one in await self._counts(database[name], time_us):
                pending, delayed = pending + one["pending"], delayed + one["delayed"]
                oldest += [one["oldest_us"]] if one["pending"] else []
            parked += await self._parked(database[name])
        oldest_age_s = max(0.0, (time_us - min(oldest)) / 1e6) if oldest else None
        return Backlog(pending=pending, delayed=delayed, parked=parked, oldest_age_s=oldest_age_s)

    async def _counts(self, collection: Collection, time_us: int) -> list[dict[str, Any]]:
        """One row for all that wait there, or none."""
        path = self._field.path
        waits = {"$or": [{path("next"): {"$gte": 0}}, {path("due"): {"$gte": 0}}]}
        later = {"$gt": [f"${path('waiting', 'available_us')}", time_us]}
        now_only = {"$cond": [later, None, f"${path('waiting', 'occurred_us')}"]}
        group = {
            "_id": None,
            "pending": {"$sum": {"$cond": [later, 0, 1]}},
            "delayed": {"$sum": {"$cond": [later, 1, 0]}},
            "oldest_us": {"$min": now_only},
        }
        stages: list[dict[str, Any]] = [{"$match": waits}, {"$unwind": f"${path('waiting')}"}, {"$group": group}]
        return await (await collection.aggregate(stages)).to_list()

    async def _parked(self, collection: Collection) -> int:
        path = self._field.path
        stages: list[dict[str, Any]] = [
            {"$match": {path("parked", "parked_us"): {"$gte": 0}}},
            {"$project": {"count": {"$size": f"${path('parked')}"}}},
            {"$group": {"_id": None, "count": {"$sum": "$count"}}},
        ]
        return sum([row["count"] async for row in await collection.aggregate(stages)])
