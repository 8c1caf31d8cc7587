"""A lane at work on the outbox under test: the real algorithm, and a broker in memory that can be looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from fencepost.brokers import memory
from fencepost.clock import SYSTEM_CLOCK
from fencepost.events import Event
from fencepost.ports import BrokerOptions, Lane, Source, Term
from fencepost.relay.lane import LaneOptions, LaneRun, Ownership, Parts
from fencepost.relay.retry import Backoff, Circuit
from fencepost.testing.messages import TOPIC

E = TypeVar("E", bound=Event)

TRUSTED_S = 3600.0
"""Nobody else wants the lane."""

_LOOK_S = 0.01


def new_server() -> memory.MemoryServer:
    """A broker that nobody else uses."""
    return memory.server(f"memory://relayed-{SYSTEM_CLOCK.new_id()}")


class Relayed:
    """What became of it. ``server`` is the broker, ``events`` what the lane told, ``run`` and ``task`` its work."""

    def __init__(self, server: memory.MemoryServer) -> None:
        self.server = server
        self.events: list[Event] = []
        self.run: LaneRun | None = None
        self.task: asyncio.Task[None] | None = None

    def ids(self, topic: str = TOPIC) -> list[str]:
        """The ids of what a reader of the topic sees, in order."""
        return [delivered.id for delivered in self.server.published(topic)]

    def told(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Wait until the condition holds. Raises TimeoutError, or what ended the lane."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                if self.task is not None and self.task.done():
                    await self.task
                await SYSTEM_CLOCK.sleep(_LOOK_S)


@asynccontextmanager
async def relayed(
    source: Source, lane: Lane, options: LaneOptions, server: memory.MemoryServer | None = None
) -> AsyncIterator[Relayed]:
    """A lane that is owned while the block lasts, and drained at its end. Without a ``server``, a new one."""
    found, drain = Relayed(server or new_server()), asyncio.Event()
    broker = memory.broker(BrokerOptions(url=found.server.url, source="/fencepost/rules"))
    circuit = Circuit(lane.name, Backoff(options.retry_base_s, options.retry_cap_s, SYSTEM_CLOCK), found.events.append)
    parts = Parts(source, broker, await broker.open(), circuit, found.events.append, SYSTEM_CLOCK)
    ownership = Ownership(Term(lane.name, "rules", 1), asyncio.Event(), lambda: TRUSTED_S)
    found.run = LaneRun(lane, ownership, parts, options)
    found.task = asyncio.create_task(found.run.run(drain))
    try:
        yield found
    finally:
        drain.set()
        await found.task
        await broker.close()
