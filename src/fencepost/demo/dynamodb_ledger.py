"""A demonstration with DynamoDB: orders in a table, each written by the transaction that writes its message too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fencepost.aws.address import address_of
from fencepost.aws.client import Client
from fencepost.aws.faults import ERRORS, fault_of
from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.dynamodb import AsyncDynamoOutbox
from fencepost.errors import Contention, FencepostError, SchemaMissing
from fencepost.history import Entry

T = TypeVar("T")

ORDERS_MAX = 30
"""Orders of one transaction: each is three writes, and the service takes a hundred. More are several transactions."""

_TIMEOUT_S = 10.0
_TRIES = 30
_PAUSE_S = 0.02
_PAUSE_MAX_S = 0.5
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class _Order:
    ledger: DynamoLedger
    id: str
    customer: str
    cents: int


@dataclass(frozen=True, slots=True)
class _Basket:
    """What a transaction is to write: nothing is sent before it is committed."""

    orders: list[_Order] = field(default_factory=list)


class _Getting:
    """The one call that an outbox makes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get_item(self, **request: Any) -> Any:
        return await self._client.call("get_item", **request)


class DynamoDatabase:
    """``fencepost.demo.databases.Database`` says what each call promises; work gets a basket."""

    ends_sessions = False

    def __init__(self, url: str) -> None:
        self._client = Client(address_of(url), _TIMEOUT_S, SYSTEM_CLOCK)

    async def run(self, work: Callable[[Any], T], *, keep: bool = True, open_s: float = 0.0) -> T:
        await self._client.open()
        basket = _Basket()
        result = work(basket)
        for start in range(0, len(basket.orders), ORDERS_MAX) if keep else ():
            await self._commit(basket.orders[start : start + ORDERS_MAX], open_s)
        return result

    async def _commit(self, orders: Sequence[_Order], open_s: float) -> None:
        """Read, write, and begin again where somebody else was first."""
        for tries in range(_TRIES):
            try:
                return await self._try(orders, open_s)
            except Contention:
                await SYSTEM_CLOCK.sleep(min(_PAUSE_S * 2**tries, _PAUSE_MAX_S) * SYSTEM_CLOCK.random())
        raise Contention(f"{self._client.place}: somebody else was first {_TRIES} times")

    async def _try(self, orders: Sequence[_Order], open_s: float) -> None:
        ledger = orders[0].ledger
        transaction = ledger.outbox.transaction(_Getting(self._client))
        puts = []
        for order in orders:
            payload = {"customer": order.customer, "cents": order.cents}
            kind = "order.placed"
            message = await transaction.add(ledger.topic, payload, key=order.customer, type=kind, id=order.id)
            puts.append({"Put": {"TableName": ledger.table, "Item": _item(order, message.version or 0)}})
        await SYSTEM_CLOCK.sleep(open_s)
        items = [*puts, *transaction.items]
        try:
            await self._client.ask("transact_write_items", TransactItems=items)
        except ERRORS as error:
            raise transaction.fault_of(error, items) or fault_of(error, self._client.place) from error

    async def end_sessions(self, ports: Sequence[int]) -> None:
        """There are no sessions that could be ended."""

    async def close(self) -> None:
        await self._client.close()


class DynamoLedger:
    """``fencepost.demo.ledgers.Ledger`` says what each call promises."""

    savepoints = False

    def __init__(self, url: str, prefix: str, topic: str) -> None:
        self._address, self._prefix, self.topic = address_of(url), prefix, topic
        self.table = self._address.table(prefix, "orders")
        self.outbox = AsyncDynamoOutbox(prefix=f"{self._address.names}{prefix}")

    def place(self, transaction: Any, customer: str, cents: int) -> str:
        order = _Order(self, SYSTEM_CLOCK.new_id(), customer, cents)
        transaction.orders.append(order)
        return order.id

    async def create(self) -> None:
        await self._on_client(self._create)

    async def _create(self, client: Client) -> None:
        await client.call(
            "create_table",
            TableName=self.table,
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        while (await client.call("describe_table", TableName=self.table))["Table"]["TableStatus"] != "ACTIVE":
            await SYSTEM_CLOCK.sleep(_LOOK_S)

    async def drop(self) -> None:
        with suppress(FencepostError):
            await self._on_client(self._drop)

    async def _drop(self, client: Client) -> None:
        for name in ("orders", "outbox", "lease"):
            with suppress(SchemaMissing):
                await client.call("delete_table", TableName=self._address.table(self._prefix, name))

    async def committed(self) -> Sequence[Entry]:
        found: Sequence[Entry] = await self._on_client(self._committed)
        return found

    async def _committed(self, client: Client) -> Sequence[Entry]:
        found: list[Entry] = []
        start: dict[str, Any] = {}
        while True:
            answer = await client.call("scan", TableName=self.table, ConsistentRead=True, **start)
            found += [Entry(i["id"]["S"], i["customer"]["S"], int(i["version"]["N"])) for i in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return found
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    async def _on_client(self, work: Callable[[Client], Any]) -> Any:
        client = Client(self._address, _TIMEOUT_S, SYSTEM_CLOCK)
        await client.open()
        try:
            return await work(client)
        finally:
            await client.close()


def _item(order: _Order, version: int) -> dict[str, Any]:
    return {
        "id": {"S": order.id},
        "customer": {"S": order.customer},
        "version": {"N": str(version)},
        "cents": {"N": str(order.cents)},
    }
