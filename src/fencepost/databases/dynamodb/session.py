"""A session: a client of its own, from connect to its first trouble.

There is no connection to the service that could end, so a session ends where a call leaves it unknown what happened,
and where the table turns out to be another one than at its beginning (restored from a backup under the same name).

Every read is consistent. The buckets of a lane are read at different moments; all messages of a key are in one bucket,
and ``chain`` keeps them in order inside one answer.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fencepost.aws.client import Client
from fencepost.databases.dynamodb import tables
from fencepost.databases.dynamodb.chain import Chain
from fencepost.databases.dynamodb.changes import Changes
from fencepost.databases.dynamodb.delays import Delays
from fencepost.databases.dynamodb.items import stored
from fencepost.databases.dynamodb.place import Place, buckets_of
from fencepost.databases.dynamodb.position import LOWEST, slot_in
from fencepost.databases.dynamodb.reading import Item, Partition, lowest
from fencepost.errors import ConnectionLost, DeadlineExceeded, SchemaMissing
from fencepost.message import SLOTS, Position, Stored
from fencepost.ports import Lane
from fencepost.receipt import PositionRange

FIRST_WAIT_S = 0.02
"""The first pause after a look that brought nothing new; it doubles up to the address's ``idle_s``."""

CHECKED_EVERY_S = 30.0
"""How often a session looks whether its table is still the same."""

_EVERY_LANE = Lane("every")


class DynamoSession:
    """``fencepost.ports.Session`` says what each call promises."""

    def __init__(self, place: Place, client: Client, buckets: int, table_id: str) -> None:
        self._place, self._client, self._buckets, self._table_id = place, client, buckets, table_id
        self._clock = place.options.clock
        self._chain = Chain(client, place.outbox, buckets)
        self._changes = Changes(client, self._clock, place.outbox, buckets)
        self._delays = Delays(client, self._clock, place.outbox, buckets)
        self._lost: str | None = None
        self._ended = asyncio.Event()
        self._checked_s = self._clock.monotonic()
        self._looks = 0
        self._bottom: tuple[str, ...] = ()

    # -- reading ------------------------------------------------------------------------------------------------------

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        async with self._call():
            await self._check_table()
            above = LOWEST if after is None else str(after)
            items = await lowest(self._client, self._partitions(lane, "sk > :a", {":a": {"S": above}}), limit)
            items = list(await self._chain.whole(items, None if after is None else above))
            self._note(items)
            return [stored(item) for item in items]

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        async with self._call():
            bound = {":a": {"S": str(position)}}
            partitions = self._partitions(lane, "sk <= :a", bound, ProjectionExpression="sk")
            return [item["sk"]["S"] for item in await lowest(self._client, partitions, limit)]

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        if not ranges:
            return []
        async with self._call():
            within = _Ranges(ranges)
            bounds = {":a": {"S": within.first}, ":b": {"S": within.last}}
            condition, shown = "sk BETWEEN :a AND :b", {"ProjectionExpression": "sk, id"}
            partitions = [
                partition
                for kind in (tables.pending, tables.delayed)
                for partition in self._partitions(_EVERY_LANE, condition, bounds, kind, **shown)
            ]
            found = [(item["sk"]["S"], item["id"]["S"]) for item in await _every(self._client, partitions)]
            return sorted((position, message_id) for position, message_id in found if within.has(position))

    def _partitions(
        self,
        lane: Lane,
        condition: str,
        values: dict[str, Any],
        kind: Callable[[int], str] = tables.pending,
        **shown: Any,
    ) -> list[Partition]:
        found = []
        for bucket in buckets_of(lane, self._buckets):
            request = {
                "TableName": self._place.outbox,
                "ConsistentRead": True,
                "KeyConditionExpression": f"pk = :p AND {condition}",
                "ExpressionAttributeValues": {":p": {"S": kind(bucket)}, **values},
                **shown,
            }
            found.append(Partition(request, _belongs_to(lane), _dilution(lane, bucket, self._buckets)))
        return found

    # -- writing ------------------------------------------------------------------------------------------------------

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        async with self._call():
            return await self._changes.settle(rows)

    async def reserve(self, position: Position) -> bool:
        """Nothing to do: a position has part of its message's id in it, and never comes back with another one."""
        async with self._call():
            return False

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        async with self._call():
            await self._changes.in_doubt(rows, token)

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        async with self._call():
            await self._changes.failed(rows)

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        async with self._call():
            await self._changes.park(rows)

    async def release_due(self, limit: int) -> float | None:
        async with self._call():
            return await self._delays.release_due(limit)

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        """Nobody announces a message: it is time to look again after a pause, which grows while nothing new comes."""
        self._must_live()
        pause_s = min(FIRST_WAIT_S * 2.0 ** min(self._looks, 20), self._place.address.idle_s)
        self._looks += 1
        sleeping = asyncio.ensure_future(self._clock.sleep(min(pause_s, timeout_s)))
        ending = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait([sleeping, ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            ending.cancel()
        self._must_live()

    def _note(self, items: Sequence[Item]) -> None:
        """What a look brought: pauses are short again after something new, not for what stands there and waits."""
        bottom = tuple(item["sk"]["S"] for item in (*items[:1], *items[-1:]))
        if bottom and bottom != self._bottom:
            self._looks = 0
        self._bottom = bottom

    # -- the end ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        self._end("the session is closed")
        await self._client.close()

    def _end(self, why: str) -> None:
        self._lost = self._lost or why
        self._ended.set()

    def _must_live(self) -> None:
        if self._lost is not None:
            raise ConnectionLost(f"{self._place.name}: {self._lost}")

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        """Around a call. What leaves it unknown what happened ends the session, and so does a table that is gone."""
        self._must_live()
        try:
            yield
        except (ConnectionLost, DeadlineExceeded, SchemaMissing) as fault:
            self._end(fault.what.removeprefix(f"{self._place.name}: "))
            raise

    async def _check_table(self) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._checked_s < CHECKED_EVERY_S:
            return
        table = await self._place.described(self._client, self._place.outbox)
        if table is None or table.get("TableId") != self._table_id:
            raise ConnectionLost(f"{self._place.name}: the table {self._place.outbox} is another one than it was")
        self._checked_s = now_s


async def _every(client: Client, partitions: Collection[Partition]) -> list[Item]:
    """All items of the partitions."""
    while unread := [partition for partition in partitions if partition.is_open]:
        await asyncio.gather(*(partition.more(client, 1_000) for partition in unread))
    return [item for partition in partitions for item in partition.items]


def _belongs_to(lane: Lane) -> Callable[[str], bool]:
    if lane.whole:
        return lambda position: True
    return lambda position: lane.first_slot <= slot_in(position) <= lane.last_slot


def _dilution(lane: Lane, bucket: int, buckets: int) -> int:
    """A bucket's messages for one of the lane's."""
    width = SLOTS // buckets
    first, last = max(lane.first_slot, bucket * width), min(lane.last_slot, (bucket + 1) * width - 1)
    return width // (last - first + 1)


class _Ranges:
    """Positions of receipts, to be found by one query from the first to the last: there is little else in between."""

    def __init__(self, ranges: Sequence[PositionRange]) -> None:
        self._singles = {str(first) for first, last in ranges if first == last}
        self._wide = sorted((str(first), str(last)) for first, last in ranges if first != last)
        self.first = min(str(first) for first, _ in ranges)
        self.last = max(str(last) for _, last in ranges)

    def has(self, position: str) -> bool:
        """Whether a position is in one of the ranges."""
        if position in self._singles:
            return True
        index = bisect_right(self._wide, (position, "g")) - 1  # "g" stands above every position
        return index >= 0 and self._wide[index][0] <= position <= self._wide[index][1]
