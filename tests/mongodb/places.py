"""An outbox in MongoDB of either form, and what an application does beside it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from pymongo import MongoClient
from pymongo.database import Database

from fencepost.clock import SystemClock
from fencepost.databases import mongodb
from fencepost.databases.mongodb import embedded
from fencepost.ports import DatabaseOptions, Lane, Session

LANE = Lane("tests")
TIMEOUT_S = 20.0


class Shifted(SystemClock):
    """The clock of a machine that is wrong by so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._by = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() + self._by


class Place:
    """One outbox."""

    def __init__(self, plugin: Any, options: DatabaseOptions) -> None:
        self.plugin, self.options = plugin, options
        self.source, self.schema = plugin.source(options), plugin.schema(options)
        self.address = mongodb.parse(options.url)
        self.sessions: list[Session] = []

    @cached_property
    def client(self) -> MongoClient[dict[str, Any]]:
        """The application's own."""
        return MongoClient(self.address.uri)

    @property
    def database(self) -> Database[dict[str, Any]]:
        """Where everything is."""
        return self.client[self.address.database]

    def beside(self, **changes: Any) -> Place:
        """The same with other options."""
        return Place(self.plugin, replace(self.options, **changes))

    async def session(self) -> Session:
        """A session that is closed at the end."""
        self.sessions.append(await self.source.connect())
        return self.sessions[-1]

    async def close(self) -> None:
        """Let go, and remove the collections."""
        for session in self.sessions:
            await session.close()
        names = [
            *self.address.collections,
            *(f"{self.options.prefix}{n}" for n in ("outbox", "entity", "parked", "lease")),
        ]
        for name in names:
            await asyncio.to_thread(self.database.drop_collection, name)
        self.client.close()


def collection_place(url: str, name: str) -> Place:
    """An outbox with a collection of its own."""
    prefix = f"{name.replace('-', '_')}_"
    return Place(mongodb, DatabaseOptions(url=url, prefix=prefix, timeout_s=TIMEOUT_S))


def embedded_place(url: str, name: str, *collections: str) -> Place:
    """One inside the documents of collections with names of their own."""
    prefix = f"{name.replace('-', '_')}_"
    names = ",".join(f"{prefix}{collection}" for collection in collections)
    url = f"mongodb-embedded{url.removeprefix('mongodb')}{'&' if '?' in url else '?'}collections={names}"
    return Place(embedded, DatabaseOptions(url=url, prefix=prefix, timeout_s=TIMEOUT_S))
