"""MongoDB: how fast a relay drains beside what pymongo reads and deletes without a broker, and what adding costs.

Run by ``bench.relay --database mongodb://...`` or ``mongodb-embedded://...``; the outbox in that database is made anew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from pymongo import AsyncMongoClient, DeleteMany, MongoClient, UpdateMany

from bench import meter, workload
from fencepost.databases import mongodb
from fencepost.databases.mongodb import DOCUMENT, EmbeddedOutbox, MongoOutbox, embedded
from fencepost.newmessage import NewMessage
from fencepost.ports import DatabaseOptions

_PART = 500
_CHUNK = 100
_TRANSACTIONS = 300


def fill(url: str, count: int, *, topic: str, size: int) -> None:
    """An outbox with ``count`` pending messages and nothing else."""
    address, body = mongodb.parse(url), workload.payload(size)
    client: MongoClient[dict[str, Any]] = MongoClient(address.uri)
    with client:
        database: Any = client[address.database]
        for name in ("fencepost_outbox", "fencepost_entity", "fencepost_parked", *address.collections):
            database.drop_collection(name)
        schema = (embedded if address.collections else mongodb).schema(DatabaseOptions(url=url))
        asyncio.run(schema.apply())
        for first in range(0, count, _PART):
            numbers = range(first, min(first + _PART, count))
            if address.collections:
                _insert(database[address.collections[0]], topic, numbers, body)
            else:
                _add(client, address.database, topic, numbers, body)


def _insert(collection: Any, topic: str, numbers: Sequence[int], body: bytes) -> None:
    """A document for each message: the form is meant for many documents with few messages."""
    outbox = EmbeddedOutbox()
    collection.insert_many([outbox.insert_all({"_id": n}, [_message(topic, DOCUMENT, body)]) for n in numbers])


def _add(client: Any, database: str, topic: str, numbers: Sequence[int], body: bytes) -> None:
    outbox = MongoOutbox(database)
    with client.start_session() as session, session.start_transaction():
        outbox.add_all(session, [_message(topic, f"customer-{n % workload.KEYS}", body) for n in numbers])


def _message(topic: str, key: str, body: bytes) -> NewMessage:
    return NewMessage(topic, body, key, type="order.placed", content_type="application/json")


async def ceiling(url: str, rows: int, batch: int) -> dict[str, float]:
    """Read and remove every message with pymongo, a batch at a time; nothing is published, no promise is kept."""
    address = mongodb.parse(url)
    done, started, cpu = 0, time.perf_counter(), meter.cpu_s()
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(address.uri)
    async with client:
        name = address.collections[0] if address.collections else "fencepost_outbox"
        collection: Any = client[address.database][name]
        order = "fencepost_outbox.next" if address.collections else "_id"
        query = {order: {"$gte": 0}} if address.collections else {}
        taken = {"$unset": {order: ""}, "$set": {"fencepost_outbox.waiting": []}}
        while done < rows:
            ids = [d["_id"] async for d in collection.find(query).sort(order, 1).limit(batch)]
            parts = [{"_id": {"$in": ids[n : n + _CHUNK]}} for n in range(0, len(ids), _CHUNK)]
            writes = [UpdateMany(part, taken) if address.collections else DeleteMany(part) for part in parts]
            await collection.bulk_write(writes, ordered=False)
            done += len(ids)
    elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    return {"messages_per_s": done / elapsed, "cpu_us_per_message": cpu / done * 1e6}


# ------------------------------------------------------------------------------------------------- what adding costs


def adding(url: str, options: argparse.Namespace) -> dict[str, float]:
    """Writes per second of one writer: the business alone, and with a message."""
    fill(url, 0, topic="bench", size=options.size)
    address, body = mongodb.parse(url), workload.payload(options.size)
    client: MongoClient[dict[str, Any]] = MongoClient(address.uri)
    with client:
        accounts: Any = client[address.database][address.collections[0] if address.collections else "accounts"]
        forms = (
            _updates(accounts, body) if address.collections else _transactions(client, address.database, accounts, body)
        )
        found: dict[str, list[float]] = {name: [] for name in forms}
        for _ in range(options.rounds):
            for name, write in forms.items():
                found[name].append(_rate(write))
    return {f"add_tps_{name}": statistics.median(values) for name, values in found.items()}


def _updates(accounts: Any, body: bytes) -> dict[str, Callable[[int], object]]:
    outbox, own = EmbeddedOutbox(), {"$inc": {"count": 1}}
    return {
        "none": lambda n: accounts.update_one({"_id": f"none-{n}"}, own, upsert=True),
        "embedded": lambda n: accounts.update_one(
            {"_id": f"with-{n}"}, outbox.update("bench", body, changes=own), upsert=True
        ),
    }


def _transactions(client: Any, database: str, accounts: Any, body: bytes) -> dict[str, Callable[[int], object]]:
    outbox = MongoOutbox(database)

    def write(n: int, *, message: bool) -> None:
        with client.start_session() as session, session.start_transaction():
            accounts.update_one({"_id": n % workload.KEYS}, {"$inc": {"count": 1}}, upsert=True, session=session)
            if message:
                outbox.add(session, "bench", body, key=f"customer-{n % workload.KEYS}")

    return {"none": lambda n: write(n, message=False), "counter": lambda n: write(n, message=True)}


def _rate(write: Callable[[int], object]) -> float:
    started = time.perf_counter()
    for n in range(_TRANSACTIONS):
        write(n)
    return _TRANSACTIONS / (time.perf_counter() - started)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(ceiling(**json.loads(sys.argv[1])))))
