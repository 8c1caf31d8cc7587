"""A demonstration with MongoDB, in both forms: orders in a collection of their own, or in the customers' documents."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pymongo import MongoClient
from pymongo.synchronous.client_session import ClientSession
from pymongo.write_concern import WriteConcern

from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.mongodb import EmbeddedOutbox, MongoOutbox
from fencepost.errors import FencepostError
from fencepost.history import Entry
from fencepost.mongo.address import EMBEDDED, parse
from fencepost.mongo.faults import ERRORS, fault_of, is_transient
from fencepost.plugins import name_of

T = TypeVar("T")

Updates = list[tuple[str, dict[str, Any]]]
"""Customers and the updates of their documents."""

_MAJORITY = WriteConcern("majority", j=True)
_TRIES = 20
_PAUSE_S = 0.05


class MongoDatabase:
    """``fencepost.demo.databases.Database`` says what each call promises.

    Work gets a session with a transaction open; or, where messages are in the documents, a list of updates, of which
    each is a transaction of its own.
    """

    ends_sessions = False

    def __init__(self, url: str) -> None:
        address = parse(url)
        self._embedded = name_of("database", url) == EMBEDDED
        self._client: MongoClient[dict[str, Any]] = MongoClient(address.uri, socketTimeoutMS=10_000)
        self._database = self._client.get_database(address.database, write_concern=_MAJORITY)
        self._customers = self._database[address.collections[0] if address.collections else "customers"]

    async def run(self, work: Callable[[Any], T], *, keep: bool = True, open_s: float = 0.0) -> T:
        return await asyncio.to_thread(self._run, work, keep, open_s)

    def _run(self, work: Callable[[Any], T], keep: bool, open_s: float) -> T:
        for left in reversed(range(_TRIES)):
            try:
                return self._updates(work, keep) if self._embedded else self._transaction(work, keep, open_s)
            except ERRORS as error:
                if not (is_transient(error) and left):
                    raise fault_of(error, "the orders") from error
                threading.Event().wait(_PAUSE_S * SYSTEM_CLOCK.random())  # nobody sets it
        raise AssertionError("the last try has raised")

    def _transaction(self, work: Callable[[Any], T], keep: bool, open_s: float) -> T:
        with self._client.start_session() as session:
            session.start_transaction(write_concern=_MAJORITY)
            result = work(session)
            threading.Event().wait(open_s)  # nobody sets it
            if keep:
                session.commit_transaction()
            else:
                session.abort_transaction()
            return result

    def _updates(self, work: Callable[[Any], T], keep: bool) -> T:
        updates: Updates = []
        result = work(updates)
        if keep:
            for customer, update in updates:
                self._customers.update_one({"_id": customer}, update, upsert=True)
        return result

    async def end_sessions(self, ports: Sequence[int]) -> None:
        """No user may end the connections of others in a way that all servers have: nothing is ended."""

    async def close(self) -> None:
        with suppress(*ERRORS):
            await asyncio.to_thread(self._client.close)


class MongoLedger:
    """``fencepost.demo.ledgers.Ledger`` says what each call promises."""

    savepoints = False

    def __init__(self, url: str, prefix: str, topic: str) -> None:
        self._address, self._prefix, self._topic = parse(url), prefix, topic
        self._outbox = MongoOutbox(self._address.database, prefix=prefix)
        self._embedded = EmbeddedOutbox(prefix=prefix) if self._address.collections else None

    def place(self, transaction: ClientSession | Updates, customer: str, cents: int) -> str:
        payload = {"customer": customer, "cents": cents}
        if isinstance(transaction, list):
            return self._push(transaction, customer, payload)
        message = self._outbox.add(transaction, self._topic, payload, key=customer, type="order.placed")
        orders = transaction.client[self._address.database][f"{self._prefix}orders"]
        order = {"_id": message.id, "customer": customer, "version": message.version, "cents": cents}
        orders.insert_one(order, session=transaction)
        return message.id

    def _push(self, updates: Updates, customer: str, payload: dict[str, Any]) -> str:
        assert self._embedded is not None  # noqa: S101 - updates are what such a database opens
        message_id = SYSTEM_CLOCK.new_id()
        changes = {"$push": {f"{self._prefix}orders": message_id}}
        update = self._embedded.update(self._topic, payload, type="order.placed", id=message_id, changes=changes)
        updates.append((customer, update))
        return message_id

    async def create(self) -> None:
        if self._embedded is None:
            await self._asked(lambda database: database.create_collection(f"{self._prefix}orders"))

    async def drop(self) -> None:
        """What an embedded outbox leaves behind are the documents of customers, without its fields."""
        with suppress(FencepostError):
            await self._asked(self._drop)

    def _drop(self, database: Any) -> None:
        for name in ("orders", "outbox", "entity", "parked", "lease"):
            database.drop_collection(f"{self._prefix}{name}")
        for name in self._address.collections:
            fields = {f"{self._prefix}outbox": "", f"{self._prefix}orders": ""}
            database[name].update_many({f"{self._prefix}orders": {"$exists": True}}, {"$unset": fields})
            for index in [i["name"] for i in database[name].list_indexes() if i["name"].startswith(self._prefix)]:
                database[name].drop_index(index)

    async def committed(self) -> Sequence[Entry]:
        return await self._asked(self._committed)

    def _committed(self, database: Any) -> list[Entry]:
        if self._embedded is None:
            found = database[f"{self._prefix}orders"].find()
            return [Entry(order["_id"], order["customer"], order["version"]) for order in found]
        field = f"{self._prefix}orders"
        customers = database[self._address.collections[0]].find({field: {"$exists": True}}, {field: 1})
        return [Entry(i, c["_id"], version) for c in customers for version, i in enumerate(c[field], start=1)]

    async def _asked(self, ask: Callable[[Any], T]) -> T:
        def work() -> T:
            client: MongoClient[dict[str, Any]]
            with MongoClient(self._address.uri) as client:
                try:
                    return ask(client.get_database(self._address.database, write_concern=_MAJORITY))
                except ERRORS as error:
                    raise fault_of(error, "the orders") from error

        return await asyncio.to_thread(work)
