"""The network between the parties: requests and replies take time, are late, lost or cut off; parties may be parted.

A connection keeps the order of what it carries in each direction, as TCP does. What is under way when two parties are
parted arrives when they can talk again, however late, even where whoever sent it has closed the connection since or
is dead: so a late request can have its effect long after its sender gave it up.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fencepost.errors import ConnectionLost, DeadlineExceeded, FencepostError
from fencepost.testing.simulation.loop import Life, Process, VirtualLoop

T = TypeVar("T")

_USUAL_S = (0.0002, 0.002)
_SLOW_S = (0.02, 2.0)
_GAP_S = 0.000_001
"""Two things never arrive at the same moment: an event loop would not keep their order."""


@dataclass(slots=True)
class Weather:
    """How likely each trouble is, for each call. ``around`` is called at the moments when a client may be hit."""

    reset_before: float = 0.0
    reset_after: float = 0.0
    stall: float = 0.0
    slow: float = 0.0
    twice: float = 0.0
    slow_most_s: float = _SLOW_S[1]


@dataclass(eq=False)
class Server:
    """A party that answers. ``process`` is None while it is down."""

    name: str
    process: Process | None
    connections: list[Connection] = field(default_factory=list)


class Network:
    """All links. ``struck`` is told of each moment of a call (client, call, moment) and may crash or pause the client.

    The moments are "before", "after" (it had its effect, no reply yet) and "replied".
    """

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop, self.chance = loop, chance
        self.weather = Weather()
        self.struck: Callable[[Process, str, str], None] = _nothing
        self.answered_twice: Callable[[], None] = _nothing
        self._parted: dict[frozenset[str], list[Callable[[], None]]] = {}

    def part(self, one: str, other: str) -> None:
        """Let nothing through between two parties."""
        self._parted.setdefault(frozenset((one, other)), [])

    def heal(self, one: str, other: str) -> None:
        """Let everything through again, what was under way first."""
        for arrive in self._parted.pop(frozenset((one, other)), []):
            self.loop.call_soon(arrive, context=Context())

    def heal_all(self) -> None:
        """No two parties are parted any more."""
        for pair in list(self._parted):
            one, other = pair
            self.heal(one, other)

    def carry(self, connection: Connection, direction: int, arrive: Callable[[], None]) -> None:
        """Bring something to the other end of a connection."""
        low_s, high_s = _USUAL_S
        delay_s = self.chance.uniform(low_s, high_s)
        if self.chance.random() < self.weather.slow:
            delay_s += self.chance.uniform(_SLOW_S[0], self.weather.slow_most_s)
        at_s = max(connection.busy_until_s[direction] + _GAP_S, self.loop.now_s + delay_s)
        connection.busy_until_s[direction] = at_s
        self.loop.call_at(at_s, self._arrive, connection, arrive, context=Context())

    def _arrive(self, connection: Connection, arrive: Callable[[], None]) -> None:
        stuck = self._parted.get(frozenset((connection.client.name, connection.server.name)))
        if stuck is not None:
            stuck.append(lambda: self._arrive(connection, arrive))
        elif not connection.stalled:
            arrive()


class Connection:
    """From a client to a server. ``closed`` is called at the server when it learns that the connection is over."""

    def __init__(self, network: Network, client: Process, server: Server, timeout_s: float) -> None:
        self.network, self.client, self.server, self.timeout_s = network, client, server, timeout_s
        self.busy_until_s = [0.0, 0.0]
        self.stalled = False
        self.broken = False
        self.closed: Callable[[], None] = _nothing
        self._waiting: dict[asyncio.Future[Any], None] = {}  # in order, so that the same seed is the same history
        self._over_at_server = False
        server.connections.append(self)

    async def call(self, name: str, effect: Callable[[], Awaitable[T]], patience_s: float = 0.0) -> T:
        """Have an effect at the server, and its result here.

        Raises ConnectionLost or DeadlineExceeded; the effect may have happened, or may still happen.
        """
        if self.broken:
            raise ConnectionLost(f"the connection to the {self.server.name} has ended")
        await self._strike(name, "before")
        if self.network.chance.random() < self.network.weather.stall:
            self.stalled = True
        reply: asyncio.Future[T] = self.network.loop.create_future()
        self._waiting[reply] = None
        try:
            self.network.carry(self, 0, lambda: self._serve(name, effect, reply))
            async with asyncio.timeout(self.timeout_s + patience_s):
                result = await reply
        except TimeoutError:
            self.close()
            raise DeadlineExceeded(f"the {self.server.name} did not answer {name}") from None
        except ConnectionLost:
            self.close()
            raise
        finally:
            self._waiting.pop(reply, None)
        await self._strike(name, "replied")
        return result

    def close(self) -> None:
        """End it from this side."""
        if not self.broken:
            self.broken = True
            self.network.carry(self, 0, self._end_at_server)

    def reset(self) -> None:
        """End it from both sides at once: whoever waits for a reply here is told."""
        self.broken = True
        self._end_at_server()
        for reply in list(self._waiting):
            if not reply.done():
                reply.set_exception(ConnectionLost(f"the {self.server.name} has closed the connection"))

    async def _strike(self, name: str, moment: str) -> None:
        self.network.struck(self.client, name, moment)
        if self.client.life is not Life.RUNNING:
            await asyncio.sleep(0)  # here it stops, for a while or for ever

    def _serve(self, name: str, effect: Callable[[], Awaitable[T]], reply: asyncio.Future[T]) -> None:
        network, process = self.network, self.server.process
        if self._over_at_server:
            return
        if process is None or network.chance.random() < network.weather.reset_before:
            self.reset()
            return
        process.spawn(self._work(name, effect, reply))

    async def _work(self, name: str, effect: Callable[[], Awaitable[T]], reply: asyncio.Future[T]) -> None:
        network = self.network
        try:
            result = await effect()
        except FencepostError as error:
            failure = error
            self._answer(lambda: None if reply.done() else reply.set_exception(failure))
            return
        network.struck(self.client, name, "after")
        if network.chance.random() < network.weather.reset_after:
            self.reset()
            return
        self._answer(lambda: None if reply.done() else reply.set_result(result))

    def _answer(self, arrive: Callable[[], None]) -> None:
        self.network.carry(self, 1, arrive)
        if self.network.chance.random() < self.network.weather.twice:
            self.network.answered_twice()
            self.network.carry(self, 1, arrive)

    def _end_at_server(self) -> None:
        if not self._over_at_server:
            self._over_at_server = True
            self.closed()
            if self in self.server.connections:
                self.server.connections.remove(self)


def _nothing(*_: object) -> None:
    """Nobody wants to know."""
