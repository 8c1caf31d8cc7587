"""A small world in memory for the tests of the relay: a database, a broker, owners of the one lane."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from fencepost.brokers import memory as memory_broker
from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases import memory as memory_database
from fencepost.errors import StopError
from fencepost.events import Event
from fencepost.message import Message
from fencepost.ports import BrokerOptions, DatabaseOptions, Lane, Term
from fencepost.relay.lane import LaneOptions, LaneRun, Ownership, Parts
from fencepost.relay.retry import Backoff, Circuit

LANE = Lane("orders")
FAST = LaneOptions(retry_base_s=0.001, retry_cap_s=0.005, poll_s=0.02, batch=4, publish_timeout_s=0.5)

_numbers = itertools.count()


@dataclass
class World:
    """Everything that lasts: the servers, and the events of every owner."""

    url: str
    settings: dict[str, object] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    committed: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database = memory_database.database(self.url)
        self.server = memory_broker.server(self.url)

    def message(self, key: str | None = "k", topic: str = "t", payload: bytes | None = b"{}") -> Message:
        return Message(id=SYSTEM_CLOCK.new_id(), topic=topic, key=key, payload=payload, occurred_at=SYSTEM_CLOCK.now())

    def commit(self, *keys: str | None, topic: str = "t", payload: bytes | None = b"{}") -> list[Message]:
        """Commit one message for each key, in one transaction."""
        with self.database.transaction() as transaction:
            added = [transaction.add(self.message(key, topic, payload)) for key in keys]
        self.committed += added
        return added

    def published(self, topic: str = "t") -> list[str]:
        return [d.id for d in self.server.published(topic)]

    def seen(self, kind: type[Event]) -> list[Event]:
        return [e for e in self.events if isinstance(e, kind)]

    async def owner(
        self,
        token: int = 1,
        options: LaneOptions = FAST,
        *,
        drain: asyncio.Event | None = None,
        lost: asyncio.Event | None = None,
        trusted_for_s: Callable[[], float] = lambda: 60.0,
    ) -> None:
        """Own the lane until the drain (or cancellation), with parts of one's own, as a process has them."""
        broker = memory_broker.broker(BrokerOptions(url=self.url, source="/t", timeout_s=0.5, settings=self.settings))
        source = memory_database.source(DatabaseOptions(url=self.url, timeout_s=0.5))
        backoff, observer = Backoff(options.retry_base_s, options.retry_cap_s, SYSTEM_CLOCK), self.events.append
        circuit = Circuit(LANE.name, backoff, observer)
        parts = Parts(source, broker, await broker.open(), circuit, observer, SYSTEM_CLOCK)
        ownership = Ownership(Term(LANE.name, f"owner-{token}", token), lost or asyncio.Event(), trusted_for_s)
        try:
            await LaneRun(LANE, ownership, parts, options).run(drain or asyncio.Event())
        finally:
            await broker.close()

    @asynccontextmanager
    async def owned(self, token: int = 1, options: LaneOptions = FAST) -> AsyncIterator[asyncio.Task[None]]:
        """An owner at work; drained at the end."""
        drain = asyncio.Event()
        task = asyncio.create_task(self.owner(token, options, drain=drain))
        try:
            yield task
        finally:
            drain.set()
            with suppress(StopError):
                await task

    async def until(self, condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
        """Wait until the condition holds; fail where it does not within the time."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.002)

    async def drained(self, timeout_s: float = 5.0) -> None:
        """Wait until nothing waits and everything that was committed is published."""
        await self.until(lambda: not self.database.rows, timeout_s)


def new_world(**settings: object) -> World:
    """A world that nothing else shares."""
    return World(f"memory://relay-{next(_numbers)}", settings)


def per_key(world: World, topic: str = "t") -> dict[str | None, list[str]]:
    """Ids by key, in the order in which a reader sees them."""
    found: dict[str | None, list[str]] = {}
    for delivered in world.server.published(topic):
        found.setdefault(delivered.key, []).append(delivered.id)
    return found


def check_exactly_once(world: World, survivors: list[Message] | None = None) -> None:
    """Every surviving message once, nothing else, each key in commit order."""
    expected = world.committed if survivors is None else survivors
    published = world.published()
    assert len(set(published)) == len(published), "repeated"
    assert {m.id for m in expected} <= set(published), "lost"
    found = per_key(world)
    for key in {m.key for m in expected} - {None}:
        wanted = [m.id for m in expected if m.key == key]
        assert [id_ for id_ in found[key] if id_ in set(wanted)] == wanted, "reordered"
