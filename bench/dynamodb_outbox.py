"""DynamoDB: how fast a relay drains beside the same client that only reads and deletes, and what adding costs.

Run by ``bench.relay --database dynamodb://...``; the outbox of that address is made anew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from typing import Any

from bench import meter, workload
from fencepost.aws.address import address_of
from fencepost.aws.client import Client
from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.dynamodb import AsyncDynamoOutbox, AsyncDynamoTransaction, DynamoSchema
from fencepost.errors import SchemaMissing
from fencepost.ports import DatabaseOptions

_PART = 50  # messages of one transaction: each is two writes
_TRANSACTIONS = 500
_TIMEOUT_S = 60.0


class _Getting:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def get_item(self, **request: Any) -> Any:
        return await self._client.call("get_item", **request)


def fill(database: str, count: int, *, topic: str, size: int) -> None:
    """An outbox with ``count`` pending messages and nothing else."""
    asyncio.run(_fill(database, count, topic=topic, size=size))


async def _fill(database: str, count: int, *, topic: str, size: int) -> None:
    client, outbox = await _opened(database)
    for name in ("outbox", "lease"):
        try:
            await client.call("delete_table", TableName=f"{_prefix(database)}{name}")
        except SchemaMissing:
            continue
    await DynamoSchema(DatabaseOptions(url=database)).apply()
    for first in range(0, count, _PART):
        transaction = outbox.transaction(_Getting(client))
        for n in range(first, min(first + _PART, count)):
            await _add(transaction, topic, n, workload.payload(size))
        await client.call("transact_write_items", TransactItems=transaction.items)
    await client.close()


async def _add(transaction: AsyncDynamoTransaction, topic: str, n: int, body: bytes) -> None:
    key, kind = f"customer-{n % workload.KEYS}", "application/json"
    await transaction.add(topic, body, key=key, type="order.placed", content_type=kind)


async def ceiling(url: str, rows: int, batch: int) -> dict[str, float]:
    """Read and delete every message, a batch at a time, as fast as the client can; no promise is kept."""
    client, outbox = await _opened(url)
    answer = await client.call("get_item", TableName=outbox.table, Key=_key("settings", "settings"))
    buckets = [f"pending#{bucket}" for bucket in range(int(answer["Item"]["buckets"]["N"]))]
    done, started, cpu = 0, time.perf_counter(), meter.cpu_s()
    while done < rows:
        pages = await asyncio.gather(*(_page(client, outbox.table, pk, batch // len(buckets) + 1) for pk in buckets))
        items = [item for page in pages for item in page["Items"]]
        deletes = [{"Delete": {"TableName": outbox.table, "Key": {"pk": i["pk"], "sk": i["sk"]}}} for i in items]
        parts = [deletes[first : first + 100] for first in range(0, len(deletes), 100)]
        for first in range(0, len(parts), 4):
            calls = [client.call("transact_write_items", TransactItems=part) for part in parts[first : first + 4]]
            await asyncio.gather(*calls)
        done += len(items)
    elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    await client.close()
    return {"messages_per_s": done / elapsed, "cpu_us_per_message": cpu / done * 1e6}


async def _page(client: Client, table: str, pk: str, limit: int) -> Any:
    values = {":p": {"S": pk}}
    condition = "pk = :p"
    return await client.call(
        "query",
        TableName=table,
        ConsistentRead=True,
        KeyConditionExpression=condition,
        ExpressionAttributeValues=values,
        Limit=limit,
    )


# ------------------------------------------------------------------------------------------------- what adding costs


def adding(database: str, options: argparse.Namespace) -> dict[str, float]:
    """Transactions per second of one writer: two updates alone, with a bare item, and with a message."""
    return asyncio.run(_adding(database, options))


async def _adding(database: str, options: argparse.Namespace) -> dict[str, float]:
    found: dict[str, list[float]] = {"none": [], "bare_put": [], "counter": []}
    for _ in range(options.rounds):
        await _fill(database, 0, topic="bench", size=options.size)
        for form, rates in found.items():
            rates.append(await _rate(database, form, workload.payload(options.size)))
    result = {f"add_tps_{name}": statistics.median(values) for name, values in found.items()}
    return result | {"add_counter_to_bare": result["add_tps_counter"] / result["add_tps_bare_put"]}


async def _rate(database: str, form: str, body: bytes) -> float:
    client, outbox = await _opened(database)
    started = time.perf_counter()
    for n in range(_TRANSACTIONS):
        items = [_count(outbox.table, f"account-{n % workload.KEYS}"), _count(outbox.table, "entries")]
        if form == "bare_put":
            item = {**_key("bare", f"{n:06}"), "payload": {"B": body}}
            items.append({"Put": {"TableName": outbox.table, "Item": item}})
        if form == "counter":
            transaction = outbox.transaction(_Getting(client))
            await _add(transaction, "bench", n, body)
            items += transaction.items
        await client.call("transact_write_items", TransactItems=items)
    elapsed = time.perf_counter() - started
    await client.close()
    return _TRANSACTIONS / elapsed


def _count(table: str, name: str) -> dict[str, Any]:
    change = {"UpdateExpression": "ADD entries :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    return {"Update": {"TableName": table, "Key": _key("bench", name), **change}}


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def _prefix(database: str) -> str:
    return f"{address_of(database).names}fencepost_"


async def _opened(database: str) -> tuple[Client, AsyncDynamoOutbox]:
    client = Client(address_of(database), _TIMEOUT_S, SYSTEM_CLOCK)
    await client.open()
    return client, AsyncDynamoOutbox(prefix=_prefix(database))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(ceiling(**json.loads(sys.argv[1])))))
