"""The relay as a whole, on servers in memory: campaigning, standing by, handing over, starting over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fencepost.brokers import memory as memory_broker
from fencepost.databases import memory as memory_database
from fencepost.elections import memory as memory_election
from fencepost.errors import AccessDenied, ConfigurationError, GuaranteeUnavailable, SchemaMissing, Unavailable
from fencepost.events import CircuitOpened, LeaseAcquired, LeaseEnded, RelayFailed, RelayStarted, StandingBy
from fencepost.ports import BrokerOptions, DatabaseOptions, LeaseOptions
from fencepost.relay import Relay, RelayOptions
from tests.relay.world import LANE, World, check_exactly_once, new_world

FAST = RelayOptions(ttl_s=0.5, poll_s=0.02, retry_base_s=0.001, retry_cap_s=0.02)


def new_relay(world: World, owner: str, options: RelayOptions = FAST, **settings: object) -> Relay:
    broker = memory_broker.broker(BrokerOptions(url=world.url, source="/t", timeout_s=0.5, settings=settings))
    source = memory_database.source(DatabaseOptions(url=world.url, timeout_s=0.5))
    leases = memory_election.lease_store(LeaseOptions(url=world.url))
    return Relay(source, broker, leases, LANE, owner, options, world.events.append)


@asynccontextmanager
async def running(relay: Relay) -> AsyncIterator[asyncio.Task[None]]:
    """The relay at work, stopped in the ordinary way at the end."""
    task = asyncio.create_task(relay.run())
    try:
        yield task
    finally:
        relay.stop()
        await asyncio.wait_for(task, 5)


async def test_one_leads_the_other_stands_by_and_takes_over_when_the_leader_stops() -> None:
    world = new_world()
    async with running(new_relay(world, "first")):
        world.commit("a")
        await world.drained()
        second = new_relay(world, "second")
        async with running(second):
            await world.until(lambda: StandingBy(lane=LANE.name, owner="first") in world.events)
            assert len(world.seen(LeaseAcquired)) == 1
        world.commit("b")
        await world.drained()
    async with running(new_relay(world, "third")):
        world.commit("c")
        await world.drained()
    check_exactly_once(world)
    owners = [e.owner for e in world.seen(LeaseAcquired) if isinstance(e, LeaseAcquired)]
    assert owners == ["first", "third"]
    reasons = [e.reason for e in world.seen(LeaseEnded) if isinstance(e, LeaseEnded)]
    assert reasons == ["released", "released"]


async def test_d11_a_stopped_leader_hands_over_at_once() -> None:
    world = new_world()
    slow = RelayOptions(ttl_s=60.0, poll_s=0.02)
    first, second = new_relay(world, "first", slow), new_relay(world, "second", slow)
    async with running(first):
        await world.until(lambda: bool(world.seen(LeaseAcquired)))
        async with running(second):
            await world.until(lambda: bool(world.seen(StandingBy)))
            first.stop()
            world.commit("a")
            await world.drained()  # long before a lease of a minute could end


async def test_a1_twenty_relays_publish_each_row_once() -> None:
    world = new_world()
    world.commit(*[f"key-{n % 50}" for n in range(1000)])
    relays = [new_relay(world, f"relay-{n}") for n in range(20)]
    tasks = [asyncio.create_task(relay.run()) for relay in relays]
    await world.drained()
    for relay in relays:
        relay.stop()
    await asyncio.gather(*tasks)
    check_exactly_once(world)


async def test_d3_an_error_that_nobody_expected_is_told_and_the_relay_starts_over() -> None:
    world = new_world()
    world.server.gate.fail_next(1, ZeroDivisionError("a defect"), call="publish")  # type: ignore[arg-type]
    async with running(new_relay(world, "first")):
        world.commit("a")
        await world.drained()
    (failed,) = world.seen(RelayFailed)
    assert isinstance(failed, RelayFailed)
    assert failed.cause == "ZeroDivisionError: a defect"
    assert len(world.seen(LeaseAcquired)) == 2
    check_exactly_once(world)


async def test_a_server_that_is_down_at_the_start_is_waited_for() -> None:
    world = new_world()
    world.database.gate.fail_next(5, Unavailable("the database is down"))
    async with running(new_relay(world, "first")):
        world.commit("a")
        await world.drained()
    causes = {e.cause for e in world.seen(CircuitOpened) if isinstance(e, CircuitOpened)}
    assert causes == {"the database is down"}
    assert len(world.seen(RelayStarted)) == 1


async def test_what_a_person_must_mend_is_said_at_the_start_also_while_another_server_is_down() -> None:
    world = new_world()
    world.server.gate.fail_next(1, Unavailable("the broker is down"))
    world.database.gate.fail_next(1, SchemaMissing("no table"))
    with pytest.raises(SchemaMissing):
        await asyncio.wait_for(new_relay(world, "first").run(), 5)


async def test_who_may_not_take_leases_is_told_at_the_start() -> None:
    world = new_world()
    memory_election.leases(world.url).gate.fail_next(1, AccessDenied("no right to write leases"), call="rehearse")
    with pytest.raises(AccessDenied):
        await asyncio.wait_for(new_relay(world, "first").run(), 5)


async def test_a_stop_while_a_server_does_not_answer_is_heard_at_once() -> None:
    world = new_world()
    world.database.gate.pause()
    relay = new_relay(world, "first")
    task = asyncio.create_task(relay.run())
    await asyncio.sleep(0.05)
    relay.stop()
    await asyncio.wait_for(task, 0.3)  # the call itself would take half a second


async def test_a_guarantee_that_the_broker_cannot_give_is_refused_at_the_start() -> None:
    world = new_world()
    relay = new_relay(world, "first", RelayOptions(delivery="exactly-once"), delivery="at-least-once")
    with pytest.raises(GuaranteeUnavailable, match=r"at-least-once.*the delivery setting"):
        await relay.run()


def test_unknown_values_of_options_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="park, block"):
        RelayOptions(on_poison="ignore")


@pytest.mark.parametrize(
    ("delivery", "waits"), [("exactly-once", False), ("deduplicated", True), ("at-least-once", True)]
)
async def test_whose_lease_was_taken_early_may_still_publish_where_nothing_is_fenced(
    delivery: str, waits: bool
) -> None:
    """A10: its session is gone, which is no proof that it is."""
    world = new_world()
    last = memory_election.lease_store(LeaseOptions(url=world.url))
    await last.open()
    assert await last.acquire(LANE.name, "last", 60.0)
    await last.close()
    world.commit("a")
    async with running(new_relay(world, "next", delivery=delivery)):
        await world.until(lambda: any(isinstance(e, LeaseAcquired) and e.early for e in world.events))
        await asyncio.sleep(FAST.ttl_s / 2)
        assert bool(world.published()) is not waits
        await world.drained()
    check_exactly_once(world)
