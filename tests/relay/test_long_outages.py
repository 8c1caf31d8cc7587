"""Half an hour of trouble in a moment: the real relay on servers in memory, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from fencepost.brokers import memory as memory_broker
from fencepost.databases import memory as memory_database
from fencepost.elections import memory as memory_election
from fencepost.errors import ParkError, Unavailable
from fencepost.events import CircuitClosed, CircuitOpened, MessageFailed, MessageParked, TopicHeld, TopicResumed
from fencepost.message import Stored
from fencepost.ports import BrokerOptions, DatabaseOptions, Failure, LeaseOptions
from fencepost.relay import Relay, RelayOptions
from fencepost.testing.simulation.clock import VirtualClock
from fencepost.testing.simulation.loop import VirtualLoop
from tests.relay.world import LANE, World, check_exactly_once, new_world

HALF_AN_HOUR_S = 1800.0


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()
    yield made
    made.close()


class Running:
    """A relay in virtual time."""

    def __init__(self, world: World, loop: VirtualLoop, options: RelayOptions) -> None:
        self.world, self.loop = world, loop
        clock = VirtualClock(loop, random.Random(1))
        self.broker = memory_broker.broker(BrokerOptions(url=world.url, source="/t", timeout_s=10.0, clock=clock))
        source = memory_database.source(DatabaseOptions(url=world.url, clock=clock))
        leases = memory_election.lease_store(LeaseOptions(url=world.url, clock=clock))
        self._relay = Relay(source, self.broker, leases, LANE, "one", options, world.events.append, clock)

    def refuse(self, refuses: Callable[[Stored], Failure | None]) -> None:
        """Let the broker take no message of which this says why."""
        self.broker.failure = refuses  # type: ignore[method-assign, assignment]

    async def work(self, scenario: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._relay.run())
        try:
            await scenario
        finally:
            self._relay.stop()
            await task


def run(loop: VirtualLoop, running: Running, scenario: Coroutine[Any, Any, None]) -> None:
    loop.run_until_complete(loop.create_task(running.work(scenario)))


def test_d6_the_broker_is_down_for_half_an_hour_before_ten_thousand_rows(loop: VirtualLoop) -> None:
    """No attempt is spent, the circuit is open and says why all the time, and afterwards all goes out in order."""
    world = new_world()
    running = Running(world, loop, RelayOptions(max_attempts=2))

    async def scenario() -> None:
        world.commit("key-0")
        await asyncio.sleep(1)
        world.server.gate.pause()
        world.commit(*[f"key-{n % 50}" for n in range(10_000)])
        await asyncio.sleep(60)
        for _ in range(29):
            assert running._relay.cause is not None
            await asyncio.sleep(60)
        assert {row.message.attempts for row in world.database.rows} == {0}
        world.server.gate.resume()
        await asyncio.sleep(60)
        assert running._relay.cause is None
        assert not world.database.rows

    run(loop, running, scenario())
    assert not world.database.parked
    assert world.seen(MessageFailed) == []
    opened = [e for e in world.seen(CircuitOpened) if isinstance(e, CircuitOpened)]
    assert 30 < len(opened) < 300, "neither given up nor hammered"
    assert all("did not answer" in e.cause for e in opened)
    (closed,) = world.seen(CircuitClosed)
    assert isinstance(closed, CircuitClosed)
    assert HALF_AN_HOUR_S - 60 < closed.open_s < HALF_AN_HOUR_S + 60
    check_exactly_once(world)


def test_d6_one_place_is_down_for_half_an_hour_and_other_topics_do_not_notice(loop: VirtualLoop) -> None:
    """Two thousand wait at the head for it; what is added for others arrives within a second all the while."""
    world, down = new_world(), [False]
    running = Running(world, loop, RelayOptions(max_attempts=2))

    def refuses(message: Stored) -> Failure | None:
        error = Unavailable("the hook is down")
        return Failure(message, error, whole_topic=True) if down[0] and message.topic == "hook" else None

    async def scenario() -> None:
        running.refuse(refuses)
        down[0] = True
        world.commit(*[f"key-{n % 50}" for n in range(2_000)], topic="hook")
        for _ in range(60):
            await asyncio.sleep(29)
            world.commit("a", "b")
            await asyncio.sleep(1)
            assert all(row.message.topic == "hook" for row in world.database.rows)
        down[0] = False
        await asyncio.sleep(60)
        assert not world.database.rows

    run(loop, running, scenario())
    assert not world.database.parked
    assert world.seen(MessageFailed) == world.seen(MessageParked) == world.seen(CircuitOpened) == []
    held = world.seen(TopicHeld)
    assert 30 < len(held) < 300
    (resumed,) = world.seen(TopicResumed)
    assert isinstance(resumed, TopicResumed)
    assert resumed.held_s >= HALF_AN_HOUR_S
    expected = [m for m in world.committed if m.topic == "hook"]
    assert world.published("hook") == [m.id for m in expected]


@pytest.mark.parametrize("on_poison", ["park", "block"])
def test_d2_poison_at_the_head_as_much_as_three_batches(loop: VirtualLoop, on_poison: str) -> None:
    """Rows of other keys arrive within a second, whatever becomes of the poison: parked at its time, or in the way."""
    world = new_world()
    options = RelayOptions(batch=20, max_attempts=5, on_poison=on_poison)
    running = Running(world, loop, options)

    def refuses(message: Stored) -> Failure | None:
        return Failure(message, ParkError("poison")) if message.topic == "poison" else None

    async def scenario() -> None:
        running.refuse(refuses)
        poison = world.commit(*[f"bad-{n}" for n in range(60)], topic="poison")
        world.committed.clear()
        for _ in range(20):
            world.commit("a", "b")
            await asyncio.sleep(1)
            assert all(row.message.topic == "poison" for row in world.database.rows)
            await asyncio.sleep(29)
        waiting = {row.message.id for row in world.database.rows}
        parked = {row.message.id for row in world.database.parked}
        assert (parked if on_poison == "park" else waiting) == {m.id for m in poison}
        assert not (waiting if on_poison == "park" else parked)

    run(loop, running, scenario())
    check_exactly_once(world)
