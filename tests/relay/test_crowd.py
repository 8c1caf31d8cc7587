"""Several relays, and long backlogs, on servers in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from fencepost.brokers import memory as memory_broker
from fencepost.brokers.memory import Delivered
from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases import memory as memory_database
from fencepost.databases.memory import MemorySession
from fencepost.elections import memory as memory_election
from fencepost.errors import Unavailable
from fencepost.events import CircuitClosed, CircuitOpened, LeaseAcquired, LeaseEnded, MessageFailed, MessageParked
from fencepost.message import SLOTS, Position
from fencepost.ports import BrokerOptions, DatabaseOptions, Lane, LeaseOptions
from fencepost.relay import Relay, RelayOptions, reader
from fencepost.relay.lane import LaneOptions
from tests.relay.test_service import FAST as SERVICE
from tests.relay.test_service import new_relay, running
from tests.relay.world import FAST, LANE, World, check_exactly_once, new_world

LANES = [Lane("orders", i, i * SLOTS // 4, (i + 1) * SLOTS // 4 - 1) for i in range(4)]


class Member:
    """A process with a relay for each lane, of which only some lead."""

    def __init__(self, world: World, owner: str, options: RelayOptions) -> None:
        self.relays = [self._relay(world, lane, owner, options) for lane in LANES]
        self.tasks = [asyncio.create_task(relay.run()) for relay in self.relays]

    @staticmethod
    def _relay(world: World, lane: Lane, owner: str, options: RelayOptions) -> Relay:
        broker = memory_broker.broker(BrokerOptions(url=world.url, source="/t", timeout_s=0.5))
        source = memory_database.source(DatabaseOptions(url=world.url, timeout_s=0.5))
        leases = memory_election.lease_store(LeaseOptions(url=world.url))
        return Relay(source, broker, leases, lane, owner, options, world.events.append)

    async def killed(self) -> None:
        """End at once, in the middle of whatever it does."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def stopped(self) -> None:
        for relay in self.relays:
            relay.stop()
        await asyncio.gather(*self.tasks)


async def test_a13_three_relays_four_lanes_one_killed_and_one_added() -> None:
    world = new_world()
    world.database.gate.latency_s = world.server.gate.latency_s = 0.001
    world.commit(*[f"key-{n % 97}" for n in range(10_000)])
    options = replace(SERVICE, batch=200)
    first, second, third = (Member(world, name, options) for name in ("first", "second", "third"))
    await world.until(lambda: len(world.published()) > 1000, 30)
    await first.killed()
    assert world.database.rows, "it came in the middle"
    fourth = Member(world, "fourth", options)
    await world.until(lambda: not world.database.rows, 60)
    for member in (second, third, fourth):
        await member.stopped()
    check_exactly_once(world)
    assert len(set(world.published())) == 10_000
    assert {e.lane for e in world.events if isinstance(e, LeaseAcquired)} == {lane.name for lane in LANES}


async def test_a2_attempts_grow_once_per_try_of_the_whole_system() -> None:
    """Two relays, and the one that leads changes between the tries."""
    world = new_world()
    world.server.refuse("bad")
    (bad,) = world.commit("a", topic="bad")
    options = replace(SERVICE, max_attempts=6, retry_base_s=0.02, retry_cap_s=0.02)
    for turn in range(3):
        first, second = new_relay(world, f"first-{turn}", options), new_relay(world, f"second-{turn}", options)
        async with running(first), running(second):
            tried = len(world.seen(MessageFailed))
            await world.until(lambda before=tried: len(world.seen(MessageFailed)) > before or not world.database.rows)  # type: ignore[misc]
    async with running(new_relay(world, "last", options)):
        await world.drained()
    attempts = [e.attempts for e in world.seen(MessageFailed) if isinstance(e, MessageFailed)]
    assert attempts == [1, 2, 3, 4, 5], "nobody's try was counted twice, none was forgotten"
    assert [e.attempts for e in world.seen(MessageParked) if isinstance(e, MessageParked)] == [6]
    assert world.database.parked[0].message.id == bad.id


async def test_a4_ten_thousand_become_due_at_once_and_each_read_is_slower_than_the_poll_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_DUE_LIMIT", 500)
    world = new_world()
    later = SYSTEM_CLOCK.now() + timedelta(hours=1)
    with world.database.transaction() as transaction:
        for n in range(10_000):
            transaction.add(replace(world.message(f"key-{n}"), available_at=later))
    due = SYSTEM_CLOCK.now() + timedelta(seconds=0.1)
    for row in world.database.rows:
        world.database._state.change(replace(row, available_at=due))
    world.database.gate.latency_s = 2 * FAST.poll_s
    async with asyncio.timeout(60), world.owned(options=replace(FAST, batch=500)):
        began = SYSTEM_CLOCK.monotonic()
        await world.until(lambda: len(world.published()) >= 10_000, 60)
        took_s = SYSTEM_CLOCK.monotonic() - began
        await world.drained()
    ids = world.published()
    assert len(ids) == len(set(ids)) == 10_000
    assert took_s < 14.0, "not one release a second, which takes 19: as quickly as they are read"


async def test_a9_a_batch_that_takes_three_leases_is_one_batch_of_one_term() -> None:
    world = new_world()
    options = replace(SERVICE, ttl_s=0.3)
    world.server.gate.latency_s = 3 * options.ttl_s
    first, second = new_relay(world, "first", options), new_relay(world, "second", options)
    async with running(first), running(second):
        world.commit(*"abcabc")
        await world.until(lambda: len(world.published()) == 6, 10)
        world.server.gate.latency_s = 0.0
        await world.drained()
        terms = len(world.seen(LeaseAcquired))
    assert terms == 1, "the lease was renewed meanwhile"
    assert [e.reason for e in world.seen(LeaseEnded) if isinstance(e, LeaseEnded)][:1] in ([], ["released"])
    check_exactly_once(world)


async def test_d6_ten_thousand_rows_through_a_long_outage_of_the_broker() -> None:
    """A hundred tries, no attempt spent, the cause in every report, and the order kept afterwards."""
    world = new_world()
    world.commit(*[f"key-{n % 50}" for n in range(10_000)])
    world.server.gate.fail_next(100, Unavailable("the broker is down"), call="publish")
    async with world.owned(options=replace(FAST, batch=1000, max_attempts=2)):
        await world.until(lambda: not world.database.rows, 30)
    assert not world.database.parked
    assert not world.seen(MessageFailed)
    opened = [e for e in world.seen(CircuitOpened) if isinstance(e, CircuitOpened)]
    assert [e.failures for e in opened] == list(range(1, 101))
    assert {e.cause for e in opened} == {"the broker is down"}
    assert len(world.seen(CircuitClosed)) == 1
    check_exactly_once(world)


@pytest.mark.parametrize("names", [("orders", "orders-2"), ("orders", "order")])
async def test_a12_two_relays_of_one_process_do_not_read_each_other(names: Sequence[str]) -> None:
    """Two outboxes and one broker: each relay publishes and settles its own, though names and positions are alike."""
    worlds = [new_world(), new_world()]
    shared = worlds[0].server
    options = SERVICE
    relays = []
    for world, name in zip(worlds, names, strict=True):
        broker = memory_broker.broker(BrokerOptions(url=worlds[0].url, source="/t", timeout_s=0.5))
        source = memory_database.source(DatabaseOptions(url=world.url, timeout_s=0.5))
        leases = memory_election.lease_store(LeaseOptions(url=worlds[0].url))
        relays.append(Relay(source, broker, leases, Lane(name), "one process", options, world.events.append))
        world.commit(*"abcabc", topic=f"topic-of-{name}")
    async with running(relays[0]), running(relays[1]):
        for world in worlds:
            await world.drained()
    for world, name in zip(worlds, names, strict=True):
        assert [d.id for d in shared.published(f"topic-of-{name}")] == [m.id for m in world.committed]
        assert Counter(world.database.settled) == Counter((n, m.id) for n, m in enumerate(world.committed, 1))
    assert LANE.name == "orders.0"


async def owners_killed(world: World, options: LaneOptions, kills: int) -> None:
    """One owner after the other works, and is ended in the middle of a batch."""
    for token in range(1, kills + 1):
        before = len(world.published())
        owner = asyncio.create_task(world.owner(token, options))
        await world.until(lambda before=before: len(world.published()) > before, 30)  # type: ignore[misc]
        owner.cancel()
        await asyncio.gather(owner, return_exceptions=True)


def repeated(world: World) -> list[Delivered]:
    """What a reader sees for the second time or later."""
    seen: set[str] = set()
    found = []
    for delivered in world.server.published("t"):
        found += [delivered] if delivered.id in seen else []
        seen.add(delivered.id)
    return found


async def test_a8_owners_are_killed_in_the_middle_of_a_transaction_of_ten_thousand() -> None:
    world = new_world()
    world.commit(*[f"key-{n % 10}" for n in range(10_000)])
    world.server.gate.latency_s = world.database.gate.latency_s = 0.002
    options = replace(FAST, batch=500)
    await owners_killed(world, options, 8)
    assert world.database.rows, "the last one was killed in the middle, too"
    async with world.owned(9, options):
        await world.until(lambda: not world.database.rows, 30)
    assert world.published() == [m.id for m in world.committed]


async def test_a8_d1_on_a_plain_broker_what_was_in_hand_is_sent_again_marked_and_in_its_order() -> None:
    """The owner is gone while rows are marked as being sent; the next one needs nobody's help."""
    world = new_world(delivery="at-least-once")
    world.commit(*[None] * 10_000)
    options = replace(FAST, batch=500)
    world.server.break_off(200)
    await owners_killed(world, options, 1)
    in_doubt = {row.message.id for row in world.database.rows if row.message.in_doubt}
    assert in_doubt
    async with world.owned(2, options):
        await world.until(lambda: not world.database.rows, 30)
    ids = world.published()
    assert set(ids) == {m.id for m in world.committed}
    repeats = repeated(world)
    assert 0 < len(ids) - 10_000 <= 500, "at most one batch"
    assert len(repeats) == len(ids) - 10_000
    assert all(dict(d.headers)["ce_possiblerepeat"] == "true" for d in repeats)
    place = {m.id: n for n, m in enumerate(world.committed)}
    assert [d.id for d in repeats] == sorted([d.id for d in repeats], key=place.__getitem__)


async def test_c2_a_hundred_are_committed_while_the_broker_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world()
    early: list[str] = []
    settle = MemorySession.settle

    async def watched(self: MemorySession, rows: Sequence[tuple[Position, str]]) -> int:
        early.extend({id_ for _, id_ in rows} - set(world.published()))
        return await settle(self, rows)

    monkeypatch.setattr(MemorySession, "settle", watched)
    async with world.owned():
        world.commit("before")
        await world.drained()
        world.server.gate.pause()
        for n in range(100):
            world.commit(f"key-{n % 7}")
        await world.until(lambda: len(world.seen(CircuitOpened)) >= 1)
        assert len(world.database.rows) == 100
        assert len(world.published()) == 1
        world.server.gate.resume()
        await world.drained()
    assert early == [], "settled before its own acknowledgement"
    check_exactly_once(world)
