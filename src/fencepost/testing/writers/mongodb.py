"""An application with an outbox collection in MongoDB, on an AsyncMongoClient."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.write_concern import WriteConcern

from fencepost import plugins
from fencepost.message import Message
from fencepost.ports import DatabaseOptions
from fencepost.testing.harness import Parked, Transaction, new_message

_MAJORITY = WriteConcern("majority", j=True)


class _MongoTransaction:
    def __init__(self, outbox: Any, session: object) -> None:
        self._outbox, self._session = outbox, session

    async def add(self, *messages: Message) -> Sequence[Message]:
        added: Sequence[Message] = await self._outbox.add_all(self._session, [new_message(m) for m in messages])
        return added


class MongoWriter:
    """``fencepost.testing.harness.Writer`` says what each call promises."""

    concurrent = True
    many = int(os.environ.get("FENCEPOST_TEST_MONGODB_MANY", "200"))  # the servers that stand in for MongoDB are slow

    def __init__(self, options: DatabaseOptions) -> None:
        self.plugin = plugins.load("database", "mongodb")
        self._options = options
        self._address = self.plugin.parse(options.url, options.schema)
        self.outbox = self.plugin.AsyncMongoOutbox(self._address.database, prefix=options.prefix, max_bytes=None)
        self._client: Any = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with (
            self.client.start_session() as session,
            await session.start_transaction(write_concern=_MAJORITY),
        ):
            yield _MongoTransaction(self.outbox, session)

    async def parked(self) -> Sequence[Parked]:
        found = await self.collection("parked").find().sort("parked_us", 1).to_list()
        stored = self.plugin.stored
        return [Parked(stored(d, d["_id"], d.get("key"), d.get("version")), d["reason"]) for d in found]

    async def last_error(self, message_id: str) -> str | None:
        error = (await self.collection("outbox").find_one({"id": message_id})).get("last_error")
        return None if error is None else str(error)

    async def connections(self) -> Collection[str] | None:
        return None

    async def cut(self, connections: Collection[str]) -> None:
        """Nothing can be cut."""

    async def close(self) -> None:
        for name in ("outbox", "entity", "parked", "lease"):
            await self.collection(name).drop()
        await self._client.close()
        self._client = None

    @property
    def client(self) -> Any:
        """A client that is made when it is first needed: only then there is an event loop."""
        if self._client is None:
            self._client = AsyncMongoClient(self._address.uri)
        return self._client

    def collection(self, name: str) -> Any:
        """One of the outbox's own collections."""
        return self.client[self._address.database][f"{self._options.prefix}{name}"]


def writer(options: DatabaseOptions) -> MongoWriter:
    """The writer of one outbox."""
    return MongoWriter(options)
