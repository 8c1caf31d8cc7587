"""An application with orders and an outbox in DynamoDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.aws.client import Client
from fencepost.databases.dynamodb import AsyncDynamoOutbox, AsyncDynamoTransaction, DynamoSource
from fencepost.databases.dynamodb.session import DynamoSession
from fencepost.ports import DatabaseOptions, Lane

LANE = Lane("orders")


class Getting:
    """The one call that an outbox makes, on a client of ours."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get_item(self, **request: Any) -> Any:
        return await self._client.call("get_item", **request)


@dataclass
class Shop:
    """``client`` is the application's; ``source`` is the relay's side."""

    options: DatabaseOptions
    client: Client
    source: DynamoSource
    outbox: AsyncDynamoOutbox
    sessions: list[DynamoSession] = field(default_factory=list)

    @property
    def orders(self) -> str:
        """The name of the table of orders."""
        return f"{self.options.prefix}orders"

    async def create_orders(self) -> None:
        await self.client.call(
            "create_table",
            TableName=self.orders,
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def begin(self, outbox: AsyncDynamoOutbox | None = None) -> AsyncDynamoTransaction:
        return (outbox or self.outbox).transaction(Getting(self.client))

    async def commit(self, transaction: AsyncDynamoTransaction, *business: dict[str, Any]) -> None:
        """Write; raises the library's error."""
        await self.client.ask("transact_write_items", TransactItems=[*business, *transaction.items])

    async def add(self, *keys: str | None) -> list[str]:
        """One message for each key, all in one transaction; their ids."""
        transaction = self.begin()
        messages = [await transaction.add("orders", {}, key=key) for key in keys]
        await self.commit(transaction)
        return [message.id for message in messages]

    async def session(self) -> DynamoSession:
        self.sessions.append(await self.source.connect())
        return self.sessions[-1]

    async def everything(self) -> Sequence[dict[str, Any]]:
        """Every item of the outbox's table."""
        answer = await self.client.call("scan", TableName=self.outbox.table, ConsistentRead=True)
        items: Sequence[dict[str, Any]] = answer["Items"]
        return items

    def new_order(self, order_id: str) -> dict[str, Any]:
        """The write of an order that must not exist yet."""
        put = {"TableName": self.orders, "Item": {"id": {"S": order_id}}}
        return {"Put": {**put, "ConditionExpression": "attribute_not_exists(id)"}}

    async def close(self) -> None:
        for session in self.sessions:
            await session.close()
