"""A session with an outbox collection: what a relay does with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pymongo import DeleteMany, ReplaceOne, UpdateMany, UpdateOne

from fencepost.databases.mongodb.collection.names import DUE_INDEX, PENDING_INDEX, Names, State
from fencepost.databases.mongodb.connection import Line
from fencepost.databases.mongodb.positions import belongs
from fencepost.databases.mongodb.records import shortened, stored
from fencepost.databases.mongodb.waking import Waking
from fencepost.message import Position, Stored
from fencepost.mongo.client import chunks, now_us
from fencepost.ports import Lane
from fencepost.receipt import PositionRange, merged

CHUNK = 100
"""Positions that one statement names: one list of thousands costs some servers the square of that."""

_HELD_CHUNK = 1_000
_LOWEST = ""
_NEWS: Sequence[Mapping[str, Any]] = [
    {"$match": {"operationType": {"$in": ["insert", "update"]}}},
    {"$project": {"_id": 1}},
]


class CollectionSession:
    """``fencepost.ports.Session`` says what each call promises."""

    def __init__(self, line: Line, names: Names) -> None:
        self._line = line
        self._outbox = line.database[names.outbox]
        self._parked = line.database[names.parked]
        self._waking = Waking(line, self._outbox.watch, _NEWS)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        if after is None:
            self._waking.look()
        query = {**_publishable(lane), "_id": {"$gt": _LOWEST if after is None else str(after)}}
        documents = await self._line.call(lambda: self._find(query, {"slot": 0, "state": 0}, limit))
        rows = [stored(d, d["_id"], d.get("key"), d.get("version")) for d in documents]
        self._waking.found(rows, after)
        return rows

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        query = {**_publishable(lane), "_id": {"$lte": str(position)}}
        return [d["_id"] for d in await self._line.call(lambda: self._find(query, {"_id": 1}, limit))]

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        """Thousands of single positions are asked for by the spans that they cover: what waits there is little."""
        found: list[tuple[Position, str]] = []
        for part in chunks(merged(ranges), _HELD_CHUNK):
            found += await self._line.call(partial(self._held, part))
        return found

    async def _held(self, ranges: Sequence[PositionRange]) -> list[tuple[Position, str]]:
        lowest, highest = str(ranges[0][0]), max(str(last) for _, last in ranges)
        single = {first for first, last in ranges if first == last}
        spans = [(str(first), str(last)) for first, last in ranges if first != last]
        cursor = self._outbox.find({"_id": {"$gte": lowest, "$lte": highest}}, {"id": 1}).sort("_id", 1)
        return [
            (d["_id"], d["id"])
            async for d in cursor
            if d["_id"] in single or any(first <= d["_id"] <= last for first, last in spans)
        ]

    async def _find(self, query: dict[str, Any], fields: dict[str, int], limit: int) -> list[dict[str, Any]]:
        """All of one answer stood there at the same moment: messages of one key must not be seen without the first."""
        async with self._line.client.start_session(snapshot=True) as session:
            cursor = self._outbox.find(query, fields, session=session, hint=PENDING_INDEX, batch_size=limit + 1)
            # The state is one and the same; to name it tells every planner that the index has this order.
            return await cursor.sort([("state", 1), ("_id", 1)]).limit(limit).max_time_ms(self._time_ms).to_list()

    @property
    def _time_ms(self) -> int:
        return max(1, int(self._line.outbox.timeout_s * 1000))

    # -- writing ------------------------------------------------------------------------------------------------------

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        named = _named(rows)
        if not named:
            self._line.must_live()
            return 0
        deletes = [DeleteMany({"_id": {"$in": list(part)}}) for part in chunks(named, CHUNK)]
        return (await self._line.call(lambda: self._outbox.bulk_write(deletes, ordered=False))).deleted_count

    async def reserve(self, position: Position) -> bool:
        """A position has its message's id in it: none is ever handed out to another one."""
        self._line.must_live()
        return False

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        named = _named([(m.position, m.id) for m in rows])
        if named:
            mark = {"$set": {"token": token}}
            updates = [UpdateMany({"_id": {"$in": list(part)}}, mark) for part in chunks(named, CHUNK)]
            await self._line.call(lambda: self._outbox.bulk_write(updates, ordered=False))
        self._line.must_live()

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        updates = [
            UpdateOne({"_id": m.position}, {"$inc": {"attempts": 1}, "$set": {"last_error": shortened(text)}})
            for m, text in sorted(rows, key=_by_position)
            if belongs(m.position, m.id)
        ]
        if updates:
            await self._line.transaction(lambda s: self._outbox.bulk_write(updates, session=s))
        self._line.must_live()

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        """What is not there any more is not parked: somebody settled it, or parked it before."""
        wanted = {str(m.position): text for m, text in rows if belongs(m.position, m.id)}
        if not wanted:
            self._line.must_live()
            return
        time_us = await self._line.call(lambda: now_us(self._line.client))

        async def move(session: Any) -> None:
            query = {"_id": {"$in": sorted(wanted)}}
            there = await self._outbox.find(query, session=session).to_list()
            if not there:
                return
            parked = [ReplaceOne({"_id": d["_id"]}, _parked(d, wanted[d["_id"]], time_us), upsert=True) for d in there]
            await self._parked.bulk_write(parked, session=session)
            await self._outbox.delete_many(query, session=session)

        await self._line.transaction(move)

    async def release_due(self, limit: int) -> float | None:
        return await self._line.call(lambda: self._release_due(limit))

    async def _release_due(self, limit: int) -> float | None:
        time_us = await now_us(self._line.client)
        query = {"available_us": {"$lte": time_us}}
        due = await self._outbox.find(query, {"_id": 1}, hint=DUE_INDEX).sort("available_us", 1).limit(limit).to_list()
        now = {"$set": {"state": int(State.PENDING)}, "$unset": {"available_us": ""}}
        updates = [UpdateMany({"_id": {"$in": [d["_id"] for d in part]}}, now) for part in chunks(due, CHUNK)]
        if updates:
            await self._outbox.bulk_write(updates, ordered=False)
        later = self._outbox.find({"available_us": {"$gt": 0}}, {"available_us": 1}, hint=DUE_INDEX)
        (first,) = await later.sort("available_us", 1).limit(1).to_list() or (None,)
        return None if first is None else max(0.0, (first["available_us"] - time_us) / 1e6)

    # -- waiting, the end ---------------------------------------------------------------------------------------------

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        await self._waking.wait(timeout_s)

    async def close(self) -> None:
        self._line.end("the session is closed")
        await self._waking.close()
        await self._line.close()


def _publishable(lane: Lane) -> dict[str, Any]:
    query: dict[str, Any] = {"state": int(State.PENDING)}
    return query if lane.whole else {**query, "slot": {"$gte": lane.first_slot, "$lte": lane.last_slot}}


def _named(rows: Sequence[tuple[Position, str]]) -> list[str]:
    """The positions of rows whose ids are the right ones, sorted."""
    return sorted({str(position) for position, message_id in rows if belongs(position, message_id)})


def _by_position(row: tuple[Stored, str]) -> str:
    return str(row[0].position)


def _parked(document: dict[str, Any], reason: str, time_us: int) -> dict[str, Any]:
    kept = {name: value for name, value in document.items() if name not in {"state", "slot", "token", "last_error"}}
    attempts = document.get("attempts", 0) + 1
    return {**kept, "attempts": attempts, "reason": shortened(reason), "parked_us": time_us}
