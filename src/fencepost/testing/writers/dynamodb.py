"""An application with an outbox in DynamoDB, on aiobotocore.

A transaction that is too large for the service is written in several, each as soon as it is full.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fencepost import plugins
from fencepost.aws.address import address_of
from fencepost.aws.client import Client
from fencepost.errors import SchemaMissing
from fencepost.message import Message
from fencepost.ports import DatabaseOptions
from fencepost.testing.harness import Parked, Transaction, new_message

_FULL = 98
"""Writes of one transaction, with room for a message and its entity."""


class _Getting:
    """The one call that an outbox makes, on a client of ours."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get_item(self, **request: Any) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = await self._client.call("get_item", **request)
        return answer


class _DynamoTransaction:
    def __init__(self, outbox: Any, client: Client) -> None:
        self._outbox, self._client = outbox, client
        self._open = outbox.transaction(_Getting(client))

    async def add(self, *messages: Message) -> Sequence[Message]:
        added = []
        for m in messages:
            if len(self._open.items) > _FULL:
                await self.commit()
            added.append(await self._open.add(**new_message(m)._asdict()))
        return added

    async def commit(self) -> None:
        if self._open.items:
            await self._client.call("transact_write_items", TransactItems=self._open.items)
        self._open = self._outbox.transaction(_Getting(self._client))


class DynamoWriter:
    """``fencepost.testing.harness.Writer`` says what each call promises."""

    concurrent = True
    payload_bytes_max = 380_000
    many = 1_000

    def __init__(self, options: DatabaseOptions) -> None:
        plugin = plugins.load("database", "dynamodb")
        self._stored = plugin.items.stored
        self._address, self._options = address_of(options.url), options
        self.outbox = plugin.AsyncDynamoOutbox(prefix=f"{self._address.names}{options.prefix}")
        self._client = Client(self._address, options.timeout_s, options.clock)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        await self._client.open()
        transaction = _DynamoTransaction(self.outbox, self._client)
        yield transaction
        await transaction.commit()

    async def parked(self) -> Sequence[Parked]:
        found = [Parked(self._stored(item), item["reason"]["S"]) for item in await self._all() if "reason" in item]
        return sorted(found, key=lambda parked: str(parked.message.position))

    async def last_error(self, message_id: str) -> str | None:
        (item,) = [item for item in await self._all() if item.get("id", {}).get("S") == message_id]
        return item["last_error"]["S"] if "last_error" in item else None

    async def connections(self) -> Collection[str] | None:
        return None

    async def cut(self, connections: Collection[str]) -> None:
        """Nothing can be cut."""

    async def close(self) -> None:
        await self._client.open()
        for table in ("outbox", "lease"):
            try:
                await self._client.call("delete_table", TableName=self._address.table(self._options.prefix, table))
            except SchemaMissing:
                continue
        await self._client.close()

    async def _all(self) -> Sequence[dict[str, Any]]:
        await self._client.open()
        items: list[dict[str, Any]] = []
        start: dict[str, Any] = {}
        while True:
            answer = await self._client.call("scan", TableName=self.outbox.table, ConsistentRead=True, **start)
            items += answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return items
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


def writer(options: DatabaseOptions) -> DynamoWriter:
    """The writer of one outbox."""
    return DynamoWriter(options)
