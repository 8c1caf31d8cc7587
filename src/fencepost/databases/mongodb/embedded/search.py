"""Finding messages in the documents of one collection, in the order of their positions.

Documents are read by their lowest waiting time, which stands in an index, so only those are read that may have one of
the first messages; a document with many messages does not come before others with older ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pymongo import UpdateOne

from fencepost.databases.mongodb.embedded.document import Document, Waiting
from fencepost.databases.mongodb.embedded.fields import Field
from fencepost.databases.mongodb.positions import time_of
from fencepost.message import Position
from fencepost.mongo.client import Collection
from fencepost.ports import Lane

# A message's time is moved above that of the one before it: by so much at most, as a document has room for no more.
_MOVED_MAX_US = 2**18

_COUNTED = ("pushed", "changed", "fixed", "top", "high", "next")
_BARE = ("waiting.id", "waiting.at", "waiting.key", "waiting.available_us")

Wanted = Callable[[Document, Waiting], bool]


@dataclass(frozen=True, slots=True)
class Found:
    """A message and its document."""

    position: str
    document: Document
    waiting: Waiting


@dataclass(frozen=True, slots=True)
class Search:
    """Searches in one collection."""

    collection: Collection
    field: Field
    time_ms: int

    async def lowest(self, wanted: Wanted, limit: int, query: Mapping[str, Any], *, bare: bool) -> list[Found]:
        """The lowest ``limit`` messages that are ``wanted``, among the documents of ``query``. ``bare``: without their
        content.
        """
        found: list[Found] = []
        seen: set[str] = set()
        async for document, next_us in self.documents(query, bare=bare):
            if len(found) >= limit and found[limit - 1].waiting.at_us < next_us:
                break
            if repr(document.id) in seen:  # it moved up while it was read
                continue
            seen.add(repr(document.id))
            fresh = [Found(w.position, document, w) for w in document.waiting if wanted(document, w)]
            if fresh:
                found = (
                    sorted([*found, *fresh], key=_by_position)[:limit] if _out_of_order(found, fresh) else found + fresh
                )
        return found[:limit]

    async def write(self, updates: list[UpdateOne]) -> int:
        """Update single documents; how many of them were found as their filters say."""
        return (await self.collection.bulk_write(updates, ordered=False)).matched_count

    async def with_ids(self, ids: list[Any]) -> list[Document]:
        """Documents by their ids, without the content of their messages."""
        cursor = self.collection.find({"_id": {"$in": ids}}, self._projection(bare=True))
        return [self._document(d) async for d in cursor.max_time_ms(self.time_ms)]

    async def delayed(self, query: Mapping[str, Any], limit: int = 0) -> list[Document]:
        """Documents with delayed messages, those that are due first; ``limit`` 0 is all of them."""
        cursor = self.collection.find(
            {self.field.path("due"): query}, self._projection(bare=True), hint=self.field.index("due")
        )
        return [
            self._document(d)
            async for d in cursor.sort(self.field.path("due"), 1).limit(limit).max_time_ms(self.time_ms)
        ]

    async def documents(self, query: Mapping[str, Any], *, bare: bool) -> AsyncIterator[tuple[Document, int]]:
        """Documents that have something to publish, with their lowest waiting time (or less), by which they come."""
        path = self.field.path
        cursor = self.collection.find(
            {path("next"): {"$gte": 0}, **query}, self._projection(bare=bare), hint=self.field.index("next")
        )
        async for found in cursor.sort(path("next"), 1).max_time_ms(self.time_ms):
            yield self._document(found), found[self.field.name]["next"]

    def _document(self, found: Mapping[str, Any]) -> Document:
        return Document(self.field, found["_id"], found.get(self.field.name, {}))

    def _projection(self, *, bare: bool) -> dict[str, int]:
        parts = (*_COUNTED, *(_BARE if bare else ("waiting",)))
        return {self.field.path(part): 1 for part in parts}

    # -- queries ------------------------------------------------------------------------------------------------------

    def above(self, position: Position) -> dict[str, Any]:
        """Documents that may have a message above a position."""
        return {self.field.path("high"): {"$gte": time_of(position) - _MOVED_MAX_US}}

    def up_to(self, position: Position) -> dict[str, Any]:
        """Documents that may have a message up to a position."""
        return {self.field.path("next"): {"$gte": 0, "$lte": time_of(position)}}


def publishable(lane: Lane) -> Wanted:
    """What a lane publishes."""
    if lane.whole:
        return lambda document, one: not one.delayed
    return lambda document, one: not one.delayed and lane.first_slot <= document.slot(one) <= lane.last_slot


def _out_of_order(found: list[Found], fresh: list[Found]) -> bool:
    return bool(found) and fresh[0].position < found[-1].position


def _by_position(found: Found) -> str:
    return found.position
