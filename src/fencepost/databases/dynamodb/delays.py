"""Delayed messages: found by an index in the order of their times, made pending by a transaction of two writes.

The index follows the table a moment later. It is only asked where to look: a message that it shows late is released
late, and one that it still shows after its release is not released again, because it must stand among the delayed ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fencepost.aws.client import Client
from fencepost.clock import Clock
from fencepost.databases.dynamodb import tables
from fencepost.databases.dynamodb.many import ACTIONS_MAX, Action, in_parts, write
from fencepost.databases.dynamodb.reading import Item
from fencepost.databases.dynamodb.tables import delayed_key, pending_key
from fencepost.message import microseconds


class Delays:
    """The delayed messages of one table. The relay's clock says what is due."""

    def __init__(self, client: Client, clock: Clock, table: str, buckets: int) -> None:
        self._client, self._clock, self._table, self._buckets = client, clock, table, buckets

    async def release_due(self, limit: int) -> float | None:
        """Release up to ``limit`` messages; seconds until the next one is due, None where none is delayed."""
        now_us = microseconds(self._clock.now())
        found = await self._earliest(limit + 1)
        due = [(when, position) for when, position in found if when <= now_us][:limit]
        if due:
            await self._release([position for _, position in due])
        rest = found[len(due) :]
        return max(0.0, (rest[0][0] - now_us) / 1_000_000) if rest else None

    async def _earliest(self, limit: int) -> list[tuple[int, str]]:
        """(time in microseconds, position) of those that are due first, at most ``limit`` of each bucket, in order."""
        answers = await asyncio.gather(*(self._ask(bucket, limit) for bucket in range(self._buckets)))
        return sorted((int(item["due"]["N"]), item["sk"]["S"]) for answer in answers for item in answer["Items"])

    async def _ask(self, bucket: int, limit: int) -> Any:
        return await self._client.call(
            "query",
            TableName=self._table,
            IndexName=tables.DUE,
            KeyConditionExpression="pk = :p",
            ExpressionAttributeValues={":p": {"S": tables.delayed(bucket)}},
            Limit=limit,
        )

    async def _release(self, positions: Sequence[str]) -> None:
        """Move those that are still there."""
        items = await in_parts(positions, ACTIONS_MAX, self._items)
        await write(self._client, self._clock, [self._move(item) for item in items])

    async def _items(self, positions: Sequence[str]) -> list[Item]:
        gets = [{"Get": {"TableName": self._table, "Key": delayed_key(p, self._buckets)}} for p in positions]
        answer = await self._client.call("transact_get_items", TransactItems=gets)
        return [response["Item"] for response in answer["Responses"] if "Item" in response]

    def _move(self, item: Item) -> list[Action]:
        position, values = item["sk"]["S"], {":i": item["id"]}
        released = {name: value for name, value in item.items() if name != "due"}
        released |= pending_key(position, self._buckets)
        delete = {"Key": delayed_key(position, self._buckets), "ConditionExpression": "id = :i"}
        put = {"Item": released, "ConditionExpression": "attribute_not_exists(pk)"}
        return [
            {"Delete": {"TableName": self._table, **delete, "ExpressionAttributeValues": values}},
            {"Put": {"TableName": self._table, **put}},
        ]
