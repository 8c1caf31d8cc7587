"""The parked messages inside business documents, for an operator.

Each is retried or discarded by one write of its document, which finds it there or changes nothing. So no transaction is
needed, and no write of an application is held up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fencepost.databases.mongodb.connection import Line
from fencepost.databases.mongodb.embedded.document import key_of
from fencepost.databases.mongodb.embedded.fields import Field
from fencepost.databases.mongodb.embedding import pushing
from fencepost.databases.mongodb.positions import Ticks
from fencepost.databases.mongodb.records import fields_of, parked, stored
from fencepost.message import Stored
from fencepost.mongo.client import Collection
from fencepost.ports import ParkedFilter, ParkedMessage
from fencepost.ports.parking import again, gone


class _Place(NamedTuple):
    """Where a parked message is."""

    collection: int
    document_id: Any
    position: str


class EmbeddedParked:
    """``fencepost.ports.ParkedStore`` says what each call promises. All documents with parked messages are read for the
    first page, and the others are taken from there.
    """

    def __init__(self, line: Line, field: Field) -> None:
        self._line, self._field, self._ticks = line, field, Ticks(line.outbox.options.clock)
        self._collections: list[Collection] = [line.database[name] for name in line.outbox.address.collections]
        self._read: list[ParkedMessage] = []

    async def page(
        self, which: ParkedFilter, limit: int, after: ParkedMessage | None = None
    ) -> Sequence[ParkedMessage]:
        if after is None:
            self._read = await self._line.call(self._every)
        found = [one for one in self._read if which.matches(one) and (after is None or _order(one) > _order(after))]
        return found[:limit]

    async def count(self, which: ParkedFilter) -> int:
        return sum(which.matches(one) for one in await self._line.call(self._every))

    async def payload(self, parked: ParkedMessage) -> bytes | None:
        found = await self._line.call(partial(self._find, _place(parked)))
        if found is None:
            raise gone(self._line.outbox.place, parked)
        payload: bytes | None = found[1].get("payload")
        return payload

    async def retry(self, rows: Sequence[ParkedMessage], *, keep_versions: bool = False) -> Sequence[str]:
        call = self._line.call
        return [r.message.id for r in rows if await call(partial(self._retry, _place(r), keep_versions))]

    async def discard(self, rows: Sequence[ParkedMessage]) -> Sequence[str]:
        return [row.message.id for row in rows if await self._line.call(partial(self._update, _place(row), {}))]

    async def close(self) -> None:
        await self._line.close()

    # -- documents ----------------------------------------------------------------------------------------------------

    async def _every(self) -> list[ParkedMessage]:
        """Of each payload only the length is kept."""
        found: list[ParkedMessage] = []
        for index, collection in enumerate(self._collections):
            there = {self._field.path("parked", "parked_us"): {"$gte": 0}}
            async for document in collection.find(there, {self._field.path("parked"): 1}):
                for fields in document[self._field.name]["parked"]:
                    place = _Place(index, document["_id"], fields["position"])
                    found.append(parked(fields, _stored(fields), place))
        return sorted(found, key=_order)

    async def _find(self, place: _Place) -> tuple[int, Mapping[str, Any]] | None:
        """How many messages its document has had, and the message."""
        shown = {self._field.path("parked"): 1, self._field.path("pushed"): 1}
        document = await self._collections[place.collection].find_one({"_id": place.document_id}, shown)
        fields = {} if document is None else document.get(self._field.name, {})
        for one in fields.get("parked", ()):
            if one["position"] == place.position:
                return fields.get("pushed", 0), one
        return None

    async def _retry(self, place: _Place, keep_version: bool) -> bool:
        found = await self._find(place)
        if found is None:
            return False
        pushed, fields = found
        m = _stored(fields)
        # Versions that were not counted are the application's: it may have given larger ones already.
        kept = keep_version or (m.version or 0) > pushed
        message = {"at": self._ticks.draw(), **fields_of(again(m, keep_version=kept))}
        if m.key != key_of(place.document_id):
            message["key"] = m.key
        if kept and m.version is not None:
            message["version"] = m.version
        return await self._update(place, pushing(self._field, [message]))

    async def _update(self, place: _Place, update: Mapping[str, Any]) -> bool:
        """Take the message out of the parked ones and do this, if it is one of them."""
        query = {"_id": place.document_id, self._field.path("parked", "position"): place.position}
        pulled = {"$pull": {self._field.path("parked"): {"position": place.position}}}
        return (await self._collections[place.collection].update_one(query, {**update, **pulled})).matched_count == 1


def _place(row: ParkedMessage) -> _Place:
    assert isinstance(row.place, _Place)  # noqa: S101 - it was read from here
    return row.place


def _order(row: ParkedMessage) -> tuple[str, str]:
    return str(row.message.position), row.message.id


def _stored(fields: Mapping[str, Any]) -> Stored:
    return stored(fields, fields["position"], fields.get("key"), fields.get("version"))
