"""A session with messages inside business documents: what a relay does with them.

Every write is of one document, and only where nothing has changed in its messages since they were read; where something
has, they are read again. So no transaction is needed, and no write of an application is ever held up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pymongo import UpdateOne

from fencepost.databases.mongodb.connection import Line
from fencepost.databases.mongodb.embedded.document import Document, Waiting
from fencepost.databases.mongodb.embedded.fields import Field
from fencepost.databases.mongodb.embedded.places import Place, Places
from fencepost.databases.mongodb.embedded.search import Found, Search, publishable
from fencepost.databases.mongodb.positions import belongs
from fencepost.databases.mongodb.records import fields_of_stored, shortened
from fencepost.databases.mongodb.waking import Waking
from fencepost.errors import Contention
from fencepost.message import Position, Stored
from fencepost.mongo.client import chunks, now_us
from fencepost.ports import Lane
from fencepost.receipt import PositionRange

_CHUNK = 100  # of documents: one list of thousands costs some servers the square of that
_ATTEMPTS = 20
_PAUSE_S = 0.01

Change = Callable[[Document, Sequence[Waiting]], Mapping[str, Any]]
"""The update for messages of a document, of which there is one at least."""


class EmbeddedSession:
    """``fencepost.ports.Session`` says what each call promises; but rows of one answer were visible at the same moment
    where they are of one document.
    """

    def __init__(self, line: Line, field: Field) -> None:
        options, address = line.outbox.options, line.outbox.address
        self._line, self._clock = line, options.clock
        time_ms = max(1, int(options.timeout_s * 1000))
        self._searches = [Search(line.database[name], field, time_ms) for name in address.collections]
        self._places = Places()
        self._waking = Waking(line, line.database.watch, _news(address.collections))

    # -- reading ------------------------------------------------------------------------------------------------------

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        if after is None:
            self._waking.look()
        right = publishable(lane)

        def wanted(document: Document, one: Waiting) -> bool:
            return right(document, one) and (after is None or one.position > str(after))

        found = await self._lowest(wanted, limit, lambda s: {} if after is None else s.above(after), bare=False)
        rows = [one.document.stored(one.waiting) for one in found]
        self._waking.found(rows, after)
        return rows

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        right = publishable(lane)

        def wanted(document: Document, one: Waiting) -> bool:
            return right(document, one) and one.position <= str(position)

        found = await self._lowest(wanted, limit, lambda s: s.up_to(position), bare=True)
        return [one.position for one in found]

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        if not ranges:
            self._line.must_live()
            return []
        single = {str(first) for first, last in ranges if first == last}
        spans = [(str(first), str(last)) for first, last in ranges if first != last]
        found = await self._line.call(
            lambda: self._held(lambda p: p in single or any(a <= p <= b for a, b in spans), ranges)
        )
        return sorted((position, one.id) for position, one in found.items())

    async def _held(self, named: Callable[[str], bool], ranges: Sequence[PositionRange]) -> dict[str, Waiting]:
        """What may be published and what is delayed stand in two indexes."""
        highest = max(str(last) for _, last in ranges)
        found: dict[str, Waiting] = {}
        for index, search in enumerate(self._searches):
            documents = [document async for document, _ in search.documents(search.up_to(highest), bare=True)]
            documents += await search.delayed({"$gte": 0})
            for document in documents:
                for one in document.waiting:
                    if named(one.position):
                        found[one.position] = one
                        self._places.keep(one.position, Place(index, document.id))
        return found

    async def _lowest(
        self,
        wanted: Callable[[Document, Waiting], bool],
        limit: int,
        query: Callable[[Search], Mapping[str, Any]],
        *,
        bare: bool,
    ) -> list[Found]:
        """The lowest of all collections."""

        async def read() -> list[list[Found]]:
            reads = [search.lowest(wanted, limit, query(search), bare=bare) for search in self._searches]
            return await asyncio.gather(*reads)

        every = await self._line.call(read)
        for index, part in enumerate(every):
            for one in part:
                self._places.keep(one.position, Place(index, one.document.id))
        if len(every) == 1:
            return every[0]
        return sorted((one for part in every for one in part), key=lambda one: one.position)[:limit]

    # -- writing ------------------------------------------------------------------------------------------------------

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        settled = await self._change(rows, Document.without)
        self._places.forget(position for position, _ in rows)
        return settled

    async def reserve(self, position: Position) -> bool:
        """A position has its message's id in it: none is ever handed out to another one."""
        self._line.must_live()
        return False

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        named = [(m.position, m.id) for m in rows]
        await self._change(named, lambda d, those: d.marked({one.index: {"token": token} for one in those}))

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        """An attempt must not be counted twice, so each document is written alone: then it is known which was."""
        errors = {str(m.position): {"last_error": shortened(text)} for m, text in rows}
        for m, _ in rows:
            await self._change([(m.position, m.id)], lambda d, those: d.failed(those[0], errors[those[0].position]))
        self._line.must_live()

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        named = [(m.position, m.id) for m, _ in rows]
        time_us = await self._line.call(lambda: now_us(self._line.client))
        parked = {str(m.position): _parked(m, reason, time_us) for m, reason in rows}
        await self._change(named, lambda d, gone: d.without(gone, [parked[one.position] for one in gone]))

    async def release_due(self, limit: int) -> float | None:
        time_us = await self._line.call(lambda: now_us(self._line.client))
        due: list[tuple[int, Position, str]] = []
        for index, search in enumerate(self._searches):
            for document in await self._line.call(partial(search.delayed, {"$lte": time_us}, limit)):
                for one in document.waiting:
                    if one.delayed and one.fields["available_us"] <= time_us:
                        due.append((one.fields["available_us"], one.position, one.id))
                        self._places.keep(one.position, Place(index, document.id))
        named = [(position, message_id) for _, position, message_id in sorted(due)[:limit]]
        await self._change(named, Document.released)
        return await self._line.call(lambda: self._until_due(time_us))

    async def _until_due(self, time_us: int) -> float | None:
        firsts = [first for search in self._searches for first in await search.delayed({"$gte": 0}, 1)]
        moments = [one.fields["available_us"] for document in firsts for one in document.waiting if one.delayed]
        return max(0.0, (min(moments) - time_us) / 1e6) if moments else None

    async def _change(self, rows: Sequence[tuple[Position, str]], change: Change) -> int:
        """Change the documents of these messages; how many of the messages were there."""
        named = {str(position) for position, message_id in rows if belongs(position, message_id)}
        if not named:
            self._line.must_live()
            return 0
        unknown = self._places.unknown(named)
        if unknown:
            await self.held([(position, position) for position in unknown])
        count = 0
        for index, search in enumerate(self._searches):
            for ids in chunks(self._places.documents(index, named), _CHUNK):
                work = partial(self._change_documents, search, list(ids), named, change)
                count += await self._line.call(work)
        return count

    async def _change_documents(self, search: Search, ids: list[Any], named: set[str], change: Change) -> int:
        """Until every document was found as it had been read. What a try has done already is not there any more."""
        count: int | None = None
        for _ in range(_ATTEMPTS):
            documents = [(d, [one for one in d.waiting if one.position in named]) for d in await search.with_ids(ids)]
            updates = [UpdateOne(d.unchanged, change(d, those)) for d, those in documents if those]
            count = sum(len(those) for _, those in documents) if count is None else count
            if not updates or await search.write(updates) == len(updates):
                return count
            await self._clock.sleep(_PAUSE_S * self._clock.random())
        raise Contention(f"{self._line.outbox.place}: documents changed {_ATTEMPTS} times while they were settled")

    # -- waiting, the end ---------------------------------------------------------------------------------------------

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        await self._waking.wait(timeout_s)

    async def close(self) -> None:
        self._line.end("the session is closed")
        await self._waking.close()
        await self._line.close()


def _news(collections: tuple[str, ...]) -> list[Mapping[str, Any]]:
    written = {"ns.coll": {"$in": list(collections)}, "operationType": {"$in": ["insert", "update", "replace"]}}
    return [{"$match": written}, {"$project": {"_id": 1}}]


def _parked(message: Stored, reason: str, time_us: int) -> dict[str, Any]:
    return {
        "position": message.position,
        **fields_of_stored(message),
        "attempts": message.attempts + 1,
        "reason": shortened(reason),
        "parked_us": time_us,
    }
