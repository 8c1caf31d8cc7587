"""An application whose messages are in its business documents in MongoDB, on an AsyncMongoClient.

A transaction is one write of one document: a new one where no message has a key, else one that all of them share, so
that the messages of a key are in one document. Versions are told before they are written: nobody else writes meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pymongo import AsyncMongoClient, ReturnDocument
from pymongo.write_concern import WriteConcern

from fencepost import plugins
from fencepost.clock import SYSTEM_CLOCK
from fencepost.message import Message, Stored
from fencepost.ports import DatabaseOptions
from fencepost.testing.harness import Parked, Transaction, new_message

_MAJORITY = WriteConcern("majority", j=True)


class _EmbeddedTransaction:
    def __init__(self, last_version: int) -> None:
        self.messages: list[Message] = []
        self._last_version = last_version

    async def add(self, *messages: Message) -> Sequence[Message]:
        added = [self._versioned(m, len(self.messages) + i) for i, m in enumerate(messages, start=1)]
        self.messages += messages
        return added

    def _versioned(self, message: Message, number: int) -> Message:
        return message if message.key is None else replace(message, version=self._last_version + number)


class EmbeddedWriter:
    """``fencepost.testing.harness.Writer`` says what each call promises."""

    concurrent = False
    many = int(os.environ.get("FENCEPOST_TEST_MONGODB_MANY", "1000"))  # the servers that stand in for MongoDB are slow

    def __init__(self, options: DatabaseOptions) -> None:
        plugin = plugins.load("database", "mongodb")
        self._address = plugin.parse(options.url, options.schema)
        self._field, self._document = plugin.Field(options.prefix), plugin.Document
        self.outbox = plugin.EmbeddedOutbox(prefix=options.prefix, max_bytes=None)
        self._shared = f"{options.prefix}shared"
        self._client: Any = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        before = await self.collection.find_one({"_id": self._shared}) or {}
        last_version = before.get(self._field.name, {}).get("pushed", 0)
        transaction = _EmbeddedTransaction(last_version)
        yield transaction
        new = [new_message(m) for m in transaction.messages]
        if all(m.key is None for m in new):
            await self.collection.insert_one(self.outbox.insert_all({"_id": SYSTEM_CLOCK.new_id()}, new))
            return
        update = self.outbox.update_all(new, changes={"$inc": {"writes": 1}})
        after = await self.collection.find_one_and_update(
            {"_id": self._shared}, update, {self._field.path("pushed"): 1}, upsert=True,
            return_document=ReturnDocument.AFTER,
        )  # fmt: skip
        assert after[self._field.name]["pushed"] == last_version + len(new)

    async def parked(self) -> Sequence[Parked]:
        found = self.collection.find({self._field.path("parked"): {"$exists": True}})
        every = [one async for document in found for one in document[self._field.name]["parked"]]
        return [Parked(_stored(one), one["reason"]) for one in sorted(every, key=lambda one: int(one["parked_us"]))]

    async def last_error(self, message_id: str) -> str | None:
        found = await self.collection.find_one({self._field.path("waiting", "id"): message_id})
        (one,) = [one for one in found[self._field.name]["waiting"] if one["id"] == message_id]
        error = one.get("last_error")
        return None if error is None else str(error)

    async def connections(self) -> Collection[str] | None:
        return None

    async def cut(self, connections: Collection[str]) -> None:
        """Nothing can be cut."""

    async def close(self) -> None:
        """The collection is everybody's; documents and indexes are this outbox's own."""
        await self.collection.delete_many({self._field.path("pushed"): {"$gte": 0}})
        for index in [index["name"] async for index in await self.collection.list_indexes()]:
            if index.startswith(f"{self._field.name}_"):
                await self.collection.drop_index(index)
        await self._database.drop_collection(f"{self._field.prefix}lease")
        await self._client.close()
        self._client = None

    @property
    def _database(self) -> Any:
        if self._client is None:  # only when it is first needed there is an event loop
            self._client = AsyncMongoClient(self._address.uri)
        return self._client[self._address.database]

    @property
    def collection(self) -> Any:
        """The first of those that may have messages."""
        return self._database.get_collection(self._address.collections[0], write_concern=_MAJORITY)


def _stored(one: Mapping[str, Any]) -> Stored:
    headers = {name: value for name, value in one["headers"]} if "headers" in one else None  # noqa: C416
    version, payload = one.get("version"), one["payload"]
    return Stored(
        one["position"], one["id"], one["topic"], one.get("key"), version, one["type"], payload, one["content_type"],
        headers, one["occurred_us"], one["attempts"],
    )  # fmt: skip


def writer(options: DatabaseOptions) -> EmbeddedWriter:
    """The writer of one outbox."""
    return EmbeddedWriter(options)
