"""Where an outbox in DynamoDB is: its tables, its client, its number of buckets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fencepost.aws.address import address_of
from fencepost.aws.client import Client
from fencepost.aws.faults import APPLY
from fencepost.databases.dynamodb import tables
from fencepost.databases.dynamodb.tables import bucket_of
from fencepost.errors import ConfigurationError, FixError, SchemaMissing
from fencepost.ports import DatabaseOptions, Lane


class Place:
    """One outbox. Nothing is connected yet."""

    def __init__(self, options: DatabaseOptions) -> None:
        if options.schema is not None:
            raise ConfigurationError(
                "DynamoDB has no schemas",
                remedy="leave schema away; prefix, or the path of the URL, tells tables apart",
            )
        if options.settle != "delete":
            raise ConfigurationError(
                "settled messages cannot be kept in DynamoDB", remedy='set settle = "delete", or leave it away'
            )
        self.address = address_of(options.url)
        self.options = options
        self.name = self.address.place
        self.outbox = self.address.table(options.prefix, tables.OUTBOX)
        self.lease = self.address.table(options.prefix, tables.LEASE)

    def client(self) -> Client:
        """A client of one's own."""
        return Client(self.address, self.options.timeout_s, self.options.clock)

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[Client]:
        """A client for one look, or for one piece of work."""
        client = self.client()
        await client.open()
        try:
            yield client
        finally:
            await client.close()

    async def missing(self, client: Client) -> Sequence[str]:
        """The tables that do not exist."""
        return [name for name in (self.outbox, self.lease) if await self.described(client, name) is None]

    async def described(self, client: Client, name: str) -> dict[str, Any] | None:
        """What the service says of a table; None where it does not exist."""
        try:
            table: dict[str, Any] = (await client.call("describe_table", TableName=name))["Table"]
        except SchemaMissing:
            return None
        return table

    def check_keys(self, table: dict[str, Any]) -> None:
        """Raise FixError for a table of this name that is somebody else's."""
        wanted, _ = tables.creations(self.outbox, self.lease)
        indexes = {index["IndexName"]: index for index in table.get("GlobalSecondaryIndexes", ())}
        (due,) = wanted["GlobalSecondaryIndexes"]
        if table["KeySchema"] != wanted["KeySchema"]:
            raise FixError(
                f"{self.name}: the table {self.outbox} has other keys than pk and sk",
                remedy="choose another prefix, or another path in the URL: the table is somebody else's",
            )
        if indexes.get(tables.DUE, {}).get("KeySchema") != due["KeySchema"]:
            raise FixError(
                f"{self.name}: the table {self.outbox} has no index {tables.DUE!r}: no delayed message would be found",
                remedy="add it as `fencepost schema print` says: partition key pk, sort key due, keys only",
            )

    async def buckets(self, client: Client) -> int:
        """How many buckets the outbox has. Raises SchemaMissing where that was never written."""
        answer = await client.call("get_item", TableName=self.outbox, Key=tables.SETTINGS, ConsistentRead=True)
        if "Item" not in answer:
            raise SchemaMissing(
                f"{self.name}: the table {self.outbox} does not say how many buckets it has", remedy=APPLY
            )
        return int(answer["Item"]["buckets"]["N"])


def buckets_of(lane: Lane, buckets: int) -> range:
    """The buckets in which the messages of a lane stand, perhaps beside others."""
    return range(bucket_of(lane.first_slot, buckets), bucket_of(lane.last_slot, buckets) + 1)
