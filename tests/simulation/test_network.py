"""What the simulated network does to a call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context
from dataclasses import dataclass, field

import pytest

from fencepost.errors import ConnectionLost, DeadlineExceeded
from fencepost.testing.simulation.loop import Process, VirtualLoop
from fencepost.testing.simulation.network import Connection, Network, Server, Weather


@dataclass
class Line:
    """A client, a server and a connection between them; what had its effect at the server."""

    loop: VirtualLoop
    network: Network
    client: Process
    connection: Connection
    effects: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    def effect(self, name: str) -> Callable[[], Awaitable[str]]:
        async def happen() -> str:
            self.effects.append(name)
            return f"{name} done"

        return happen

    async def call(self, name: str) -> None:
        try:
            self.answers.append(await self.connection.call(name, self.effect(name)))
        except (ConnectionLost, DeadlineExceeded) as error:
            self.answers.append(type(error).__name__)

    def run(self, seconds: float) -> None:
        self.loop.run_until_complete(self.loop.create_task(asyncio.sleep(seconds), context=Context()))


@pytest.fixture
def line() -> Iterator[Line]:
    loop = VirtualLoop()
    network = Network(loop, random.Random(1))
    client, server = Process("client", loop), Server("server", Process("server", loop))
    yield Line(loop, network, client, Connection(network, client, server, timeout_s=1.0))
    client.revive()
    for task in loop.unfinished():
        task.cancel()
    loop.run_until_complete(loop.create_task(asyncio.sleep(5), context=Context()))
    loop.close()


def test_calls_arrive_in_the_order_in_which_they_were_made(line: Line) -> None:
    line.network.weather = Weather(slow=0.5, slow_most_s=0.04)
    for n in range(20):
        line.client.spawn(line.call(str(n)))
    line.run(60)
    assert line.effects == [str(n) for n in range(20)]


def test_a_partition_delays_what_is_under_way_beyond_its_senders_patience(line: Line) -> None:
    line.network.part("client", "server")
    line.client.spawn(line.call("late"))
    line.run(5)
    assert (line.answers, line.effects) == (["DeadlineExceeded"], [])
    line.network.heal("client", "server")
    line.run(1)
    assert (line.answers, line.effects) == (["DeadlineExceeded"], ["late"])


def test_a_stalled_connection_carries_nothing(line: Line) -> None:
    line.network.weather = Weather(stall=1.0)
    line.client.spawn(line.call("never"))
    line.run(5)
    assert (line.answers, line.effects) == (["DeadlineExceeded"], [])


@pytest.mark.parametrize(("weather", "effects"), [(Weather(reset_before=1.0), []), (Weather(reset_after=1.0), ["x"])])
def test_a_reset_comes_before_or_after_the_effect(line: Line, weather: Weather, effects: list[str]) -> None:
    line.network.weather = weather
    line.client.spawn(line.call("x"))
    line.run(5)
    assert (line.answers, line.effects) == (["ConnectionLost"], effects)


def test_an_answer_that_comes_twice_is_one(line: Line) -> None:
    line.network.weather = Weather(twice=1.0)
    line.client.spawn(line.call("x"))
    line.run(5)
    assert (line.answers, line.effects) == (["x done"], ["x"])


@pytest.mark.parametrize(("moment", "effects"), [("before", []), ("after", ["x"]), ("replied", ["x"])])
def test_a_client_may_die_at_each_moment_of_a_call(line: Line, moment: str, effects: list[str]) -> None:
    line.network.struck = lambda process, _, now: process.crash() if now == moment else None
    line.client.spawn(line.call("x"))
    line.run(5)
    assert (line.answers, line.effects) == ([], effects)
