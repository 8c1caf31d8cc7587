"""Where the rules run: a plug-in set up for one test, on tables, topics and names of its own, removed afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

from fencepost import plugins
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.existing import ExistingTable
from fencepost.message import Message, Stored
from fencepost.ports import (
    Broker,
    BrokerOptions,
    Capabilities,
    DatabaseOptions,
    Delivery,
    Handoff,
    Lane,
    LeaseOptions,
    LeaseStore,
    Schema,
    Session,
    Source,
    Term,
)
from fencepost.testing.harness import (
    Expecting,
    Preparing,
    Reader,
    Seen,
    Writer,
    complete,
    reader_factory,
    writer_factory,
)
from fencepost.testing.messages import message, stored

WHOLE = Lane("rules")
"""The lane with every slot."""

SOURCE = "/fencepost/rules"
"""The CloudEvents source of every message that the rules publish."""


def fresh() -> str:
    """Eight characters that nothing else has, for names."""
    return SYSTEM_CLOCK.new_id().replace("-", "")[-12:]


class OutboxPlace:
    """An empty outbox: its source, an application that writes to it, its schema."""

    def __init__(self, database: str, options: DatabaseOptions, writer_module: str | None) -> None:
        plugin = plugins.load("database", database)
        self.database, self.options = database, options
        self.schema: Schema = plugin.schema(options)
        self.source: Source = plugin.source(options)
        self.writer: Writer = complete(writer_factory(database, writer_module)(options))
        self._writer_module = writer_module
        self._sessions: list[Session] = []

    async def session(self) -> Session:
        """A new session, closed at the end of the test."""
        session = await self.source.connect()
        self._sessions.append(session)
        return session

    async def add(self, *messages: Message) -> list[Message]:
        """Commit these messages in one transaction; return them with their versions."""
        async with self.writer.transaction() as transaction:
            return list(await transaction.add(*messages))

    async def fill(self, count: int, *, key: str | None = None) -> list[Message]:
        """Commit ``count`` ordinary messages in one transaction."""
        return await self.add(*[message(key) for _ in range(count)])

    def most(self, count: int) -> int:
        """So many messages, or as many as are many to this database: its writer may say ``many``."""
        return min(count, getattr(self.writer, "many", count))

    def beside(self, **options: Any) -> OutboxPlace:
        """Another outbox in the same database, with these options instead. Its tables do not exist yet."""
        other = replace(self.options, **{"prefix": f"rules_{fresh()}_", **options})
        return OutboxPlace(self.database, other, self._writer_module)

    async def close(self) -> None:
        """End every session and remove the tables."""
        for session in self._sessions:
            await session.close()
        await self.writer.close()


@asynccontextmanager
async def outbox_place(
    database: str,
    url: str,
    *,
    writer_module: str | None = None,
    settle: Literal["delete", "mark"] = "delete",
    table: ExistingTable | None = None,
) -> AsyncIterator[OutboxPlace]:
    """An empty outbox of a database plug-in, on tables of its own. ``table`` is made by the writer."""
    form = None if table is None else replace(table, table=f"rules_{fresh()}")
    options = DatabaseOptions(url=url, prefix=f"rules_{fresh()}_", settle=settle, table=form)
    place = OutboxPlace(database, options, writer_module)
    try:
        await place.schema.apply()
        if isinstance(place.writer, Preparing):
            await place.writer.prepare()
        yield place
    finally:
        await place.close()


class BrokerPlace:
    """A broker, with a lane and a topic that nobody else uses, and a reader.

    A plug-in of somebody else's is told the URL as a relay tells it, with its module; the reader is told where to read.
    """

    def __init__(self, broker: str, options: BrokerOptions, reader_module: str | None) -> None:
        self._plugin = plugins.load("broker", broker)
        self._reader: Reader = reader_factory(broker, reader_module)(replace(options, url=plugins.spoken(options.url)))
        self._brokers: list[Broker] = []
        self._handoffs: list[Handoff] = []
        self._position = 0
        self.options = replace(options, url=plugins.told(broker, options.url))
        self.capabilities = Capabilities(delivery=Delivery.PLAIN)
        self.lane = Lane(f"rules-{fresh()}")
        self.topic = self.new_topic()

    @property
    def atomic(self) -> bool:
        """True where the broker says that it is atomic."""
        return self.capabilities.delivery is Delivery.ATOMIC

    def beside(self) -> Lane:
        """Another lane of the same relay."""
        return Lane(self.lane.relay, 1)

    def new_topic(self) -> str:
        """The name of a topic that does not exist yet."""
        return f"rules.{fresh()}"

    async def broker(self) -> Broker:
        """Another client of the broker, open, closed at the end of the test. What it can is in ``capabilities``."""
        broker: Broker = self._plugin.broker(self.options)
        self._brokers.append(broker)
        self.capabilities = await broker.open()
        return broker

    async def owner(
        self,
        broker: Broker | None = None,
        *,
        lane: Lane | None = None,
        token: int = 1,
        name: str = "owner",
        prepare: bool = True,
    ) -> Handoff:
        """Take the lane over, with a client of one's own unless one is given."""
        client = broker or await self.broker()
        place = lane or self.lane
        if prepare:
            await client.prepare(place, [self.topic])
        handoff = await client.take_over(place, Term(place.name, name, token))
        self._handoffs.append(handoff)
        return handoff

    def batch(self, *keys: str | None) -> list[Stored]:
        """One message for each key, on the next positions; versions are the positions."""
        return [self.take(message(key, topic=self.topic)) for key in keys]

    def take(self, one: Message) -> Stored:
        """The message, as it would be read from an outbox, on the next position."""
        if isinstance(self._reader, Expecting):
            self._reader.expect(one.topic)
        self._position += 1
        version = self._position if one.key is not None else None
        return stored(self._position, one.key, version, like=one)

    def unpublishable(self, key: str | None = None) -> Stored:
        """A message on the next position that the broker will never take."""
        return self._reader.unpublishable(self.batch(key)[0])

    async def read(self, topic: str | None = None) -> Sequence[Seen]:
        """What a reader of the topic sees."""
        return await self._reader.read(topic or self.topic)

    async def ids(self) -> list[str]:
        """The ids of what a reader of the topic sees."""
        return [seen.id for seen in await self.read()]

    async def close(self) -> None:
        """Let go of everything."""
        for handoff in self._handoffs:
            await handoff.close()
        for broker in self._brokers:
            await broker.close()
        await self._reader.close()


@asynccontextmanager
async def broker_place(
    broker: str, url: str, *, settings: Mapping[str, object], reader_module: str | None = None
) -> AsyncIterator[BrokerPlace]:
    """A broker plug-in, with one client that has learnt what the server can."""
    place = BrokerPlace(broker, BrokerOptions(url=url, source=SOURCE, settings=settings), reader_module)
    try:
        await place.broker()
        yield place
    finally:
        await place.close()


class ElectionPlace:
    """A lease store, as several processes see it, and the name of a lease that nobody has had yet."""

    def __init__(self, election: str, options: LeaseOptions) -> None:
        self._plugin = plugins.load("election", election)
        self._stores: list[LeaseStore] = []
        self.options = options
        self.name = f"rules-{fresh()}.0"

    async def store(self, clock: Clock = SYSTEM_CLOCK) -> LeaseStore:
        """The store as another process sees it: open, closed at the end of the test."""
        store: LeaseStore = self._plugin.lease_store(replace(self.options, clock=clock))
        self._stores.append(store)
        await store.open()
        return store

    async def close(self) -> None:
        """Let go of everything."""
        for store in self._stores:
            await store.close()


@asynccontextmanager
async def election_place(election: str, url: str) -> AsyncIterator[ElectionPlace]:
    """An empty lease store. Where leases live in a database's tables, these are made and removed."""
    options = LeaseOptions(url=url, prefix=f"rules_{fresh()}_")
    database = DatabaseOptions(url=url, prefix=options.prefix)
    place = ElectionPlace(election, options)
    known = election in plugins.names("database")
    plugin = plugins.load("database" if known else "election", election)
    try:
        if hasattr(plugin, "schema"):
            await plugin.schema(database).apply()
        yield place
    finally:
        await place.close()
        if known:
            await writer_factory(election)(database).close()
