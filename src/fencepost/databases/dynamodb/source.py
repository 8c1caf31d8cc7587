"""The source: opens sessions, after a look whether the tables are there and are an outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fencepost.aws.client import Client
from fencepost.aws.faults import APPLY
from fencepost.databases.dynamodb import tables
from fencepost.databases.dynamodb.parked import DynamoParked
from fencepost.databases.dynamodb.place import Place
from fencepost.databases.dynamodb.session import DynamoSession
from fencepost.errors import SchemaMissing, Unavailable
from fencepost.message import microseconds
from fencepost.ports import Backlog, DatabaseOptions


class DynamoSource:
    """An outbox that a relay reads."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._place = Place(options)

    async def connect(self) -> DynamoSession:
        client, table, buckets = await self._opened()
        return DynamoSession(self._place, client, buckets, table.get("TableId", ""))

    async def parked(self) -> DynamoParked:
        client, _, buckets = await self._opened()
        return DynamoParked(self._place, client, buckets)

    async def _opened(self) -> tuple[Client, dict[str, Any], int]:
        """A client that stays open, what the service says of the table, and the number of buckets."""
        client = self._place.client()
        await client.open()
        try:
            return client, await self._table(client), await self._place.buckets(client)
        except BaseException:
            await client.close()
            raise

    async def backlog(self) -> Backlog:
        async with self._place.looking() as client:
            buckets = await self._place.buckets(client)
            pending, delayed, parked, oldest = await asyncio.gather(
                self._count(client, [tables.pending(bucket) for bucket in range(buckets)]),
                self._count(client, [tables.delayed(bucket) for bucket in range(buckets)]),
                self._count(client, [tables.PARKED]),
                self._oldest_us(client, buckets),
            )
        now_us = microseconds(self._place.options.clock.now())
        age_s = None if oldest is None else max(0.0, (now_us - oldest) / 1_000_000)
        return Backlog(pending=pending, delayed=delayed, parked=parked, oldest_age_s=age_s)

    async def advice(self) -> Sequence[str]:
        """What would make these tables a better outbox, one line each; nothing where they are well set up."""
        name = self._place.outbox
        async with self._place.looking() as client:
            table = await self._table(client)
            expiry = (await client.call("describe_time_to_live", TableName=name))["TimeToLiveDescription"]
        found = []
        if expiry["TimeToLiveStatus"] in {"ENABLED", "ENABLING"}:
            found.append(f"{name} has a time to live: what it deletes is never published; turn it off")
        if table.get("Replicas"):
            found.append(
                f"{name} is a global table: transactions hold in one region only, so let all writers and the relay"
                " use the same one"
            )
        return found

    async def _table(self, client: Client) -> dict[str, Any]:
        table = await self._place.described(client, self._place.outbox)
        if table is None:
            raise SchemaMissing(f"{self._place.name} has no table {self._place.outbox}", remedy=APPLY)
        if table["TableStatus"] == "CREATING":
            raise Unavailable(f"{self._place.name}: the table {self._place.outbox} is being created")
        self._place.check_keys(table)
        return table

    async def _count(self, client: Client, partitions: Sequence[str]) -> int:
        return sum(await asyncio.gather(*(self._count_in(client, pk) for pk in partitions)))

    async def _count_in(self, client: Client, pk: str) -> int:
        total = 0
        start: dict[str, Any] = {}
        while True:
            answer = await client.call("query", **self._query(pk), **start, Select="COUNT")
            total += int(answer["Count"])
            if "LastEvaluatedKey" not in answer:
                return total
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    async def _oldest_us(self, client: Client, buckets: int) -> int | None:
        """When the first message of each bucket occurred, the earliest of them: close to the oldest of all."""
        firsts = await asyncio.gather(
            *(client.call("query", **self._query(tables.pending(bucket)), Limit=1) for bucket in range(buckets))
        )
        return min((int(item["occurred"]["N"]) for answer in firsts for item in answer["Items"]), default=None)

    def _query(self, pk: str) -> dict[str, Any]:
        return {
            "TableName": self._place.outbox,
            "ConsistentRead": True,
            "KeyConditionExpression": "pk = :p",
            "ExpressionAttributeValues": {":p": {"S": pk}},
        }
