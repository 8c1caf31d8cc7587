"""The parked messages of an outbox collection, for an operator: each call is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fencepost.clock import Clock
from fencepost.databases.mongodb.adding import execute_async, putting_back
from fencepost.databases.mongodb.collection.names import Names
from fencepost.databases.mongodb.connection import Line
from fencepost.databases.mongodb.positions import Ticks
from fencepost.databases.mongodb.records import parked, stored
from fencepost.flows import run_async
from fencepost.message import Stored
from fencepost.ports import ParkedFilter, ParkedMessage
from fencepost.ports.parking import again, filtered_count, filtered_page, gone


class CollectionParked:
    """``fencepost.ports.ParkedStore`` says what each call promises. A place is the position, and a document's id."""

    def __init__(self, line: Line, names: Names, clock: Clock) -> None:
        self._line, self._ticks = line, Ticks(clock)
        self._parked = line.database[names.parked]
        self._outbox, self._entities = line.database[names.outbox], line.database[names.entity]

    async def page(
        self, which: ParkedFilter, limit: int, after: ParkedMessage | None = None
    ) -> Sequence[ParkedMessage]:
        return await filtered_page(partial(self._read, {}), which, limit, after)

    async def count(self, which: ParkedFilter) -> int:
        if which.everything:
            return await self._line.call(lambda: self._parked.count_documents({}))
        return await filtered_count(partial(self._read, {"payload": 0}), which)

    async def payload(self, parked: ParkedMessage) -> bytes | None:
        found = await self._line.call(lambda: self._parked.find_one({"_id": parked.place}))
        if found is None:
            raise gone(self._line.outbox.place, parked)
        payload: bytes | None = found.get("payload")
        return payload

    async def retry(self, rows: Sequence[ParkedMessage], *, keep_versions: bool = False) -> Sequence[str]:
        return await self._line.transaction(partial(self._retry, [row.place for row in rows], keep_versions))

    async def _retry(self, places: Sequence[object], keep_versions: bool, session: Any) -> list[str]:
        documents = {d["_id"]: d async for d in self._parked.find({"_id": {"$in": places}}, session=session)}
        there = [documents[place] for place in places if place in documents]
        await self._parked.delete_many({"_id": {"$in": list(documents)}}, session=session)
        messages = [again(_stored(d), keep_version=keep_versions) for d in there]
        execute = partial(execute_async, self._outbox, self._entities, session)
        await run_async(putting_back(self._ticks, messages), execute)
        return [message.id for message in messages]

    async def discard(self, rows: Sequence[ParkedMessage]) -> Sequence[str]:
        return [row.message.id for row in rows if await self._line.call(partial(self._remove, row.place))]

    async def _remove(self, place: object) -> bool:
        return (await self._parked.delete_one({"_id": place})).deleted_count == 1

    async def close(self) -> None:
        await self._line.close()

    async def _read(self, fields: Mapping[str, int], most: int, after: ParkedMessage | None) -> Sequence[ParkedMessage]:
        query = {} if after is None else {"_id": {"$gt": after.place}}

        async def read() -> list[ParkedMessage]:
            cursor = self._parked.find(query, fields or None).sort("_id", 1).limit(most)
            return [parked(d, _stored(d), d["_id"]) async for d in cursor]

        return await self._line.call(read)


def _stored(document: Mapping[str, Any]) -> Stored:
    return stored(document, document["_id"], document.get("key"), document.get("version"))
