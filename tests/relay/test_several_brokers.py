"""One relay, several brokers: each message goes where it is routed to, and a broker in trouble is alone with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fencepost.brokers import memory as memory_broker
from fencepost.databases import memory as memory_database
from fencepost.elections import memory as memory_election
from fencepost.errors import AccessDenied, Unavailable
from fencepost.events import (
    CircuitOpened,
    LeaseAcquired,
    MessageFailed,
    MessageParked,
    OwnerFenced,
    RelayStarted,
    TopicHeld,
)
from fencepost.message import Stored
from fencepost.ports import BrokerOptions, DatabaseOptions, Failure, Lane, LeaseOptions, Term
from fencepost.relay import Outlet, Relay, RelayOptions
from fencepost.relay.routing import Addressing
from fencepost.routes import Router, Rule
from tests.relay.world import LANE, new_world

FAST = RelayOptions(ttl_s=0.5, poll_s=0.02, retry_base_s=0.001, retry_cap_s=0.02, batch=4)
ROUTER = Router([Rule("audit*", "audit", "all.{topic}"), Rule("keyed", topic="of.{key}")], brokers=("main", "audit"))


class Two:
    """A world with a second broker. ``kinds``: the delivery that each broker gives."""

    def __init__(self, *kinds: str) -> None:
        self.world = new_world()
        self.kinds = kinds or ("exactly-once", "exactly-once")
        self.urls = {"main": self.world.url, "audit": f"{self.world.url}-audit"}
        self.main, self.audit = (memory_broker.server(url) for url in self.urls.values())

    def relay(self, owner: str = "first", options: RelayOptions = FAST) -> Relay:
        world = self.world
        source = memory_database.source(DatabaseOptions(url=world.url, timeout_s=0.5))
        leases = memory_election.lease_store(LeaseOptions(url=world.url))
        outlets = [self._outlet(name, kind) for name, kind in zip(self.urls, self.kinds, strict=True)]
        return Relay(source, outlets, leases, LANE, owner, options, world.events.append)

    def _outlet(self, name: str, kind: str) -> Outlet:
        options = BrokerOptions(url=self.urls[name], source="/t", timeout_s=0.3, settings={"delivery": kind})
        lane = Lane(LANE.relay if name == "main" else f"{LANE.relay}--{name}")
        return Outlet(Addressing(memory_broker.broker(options), ROUTER), lane, lambda m: ROUTER.broker_of(m) == name)

    def all_of(self, server: memory_broker.MemoryServer) -> dict[str, list[str]]:
        return {topic: [d.id for d in server.published(topic)] for topic in server._topics}

    async def settled(self, topic: str) -> None:
        """Wait until nothing of this topic waits."""
        await self.world.until(lambda: all(row.message.topic != topic for row in self.world.database.rows))


@asynccontextmanager
async def running(relay: Relay) -> AsyncIterator[None]:
    task = asyncio.create_task(relay.run())
    try:
        yield
    finally:
        relay.stop()
        await asyncio.wait_for(task, 5)


@pytest.mark.parametrize(
    "kinds", [("exactly-once", "exactly-once"), ("exactly-once", "at-least-once"), ("deduplicated",) * 2]
)
async def test_each_message_goes_where_it_is_routed_to_and_nowhere_else(kinds: tuple[str, ...]) -> None:
    two = Two(*kinds)
    async with running(two.relay()):
        sent = [two.world.commit(f"key-{n % 3}", topic=topic)[0] for n in range(40) for topic in ("t", "audit.x")]
        keyed = two.world.commit("k1", "k2", topic="keyed")
        await two.world.drained()
    main, audit = two.all_of(two.main), two.all_of(two.audit)
    assert (main.pop("of.k1"), main.pop("of.k2")) == ([keyed[0].id], [keyed[1].id])
    for found, topic, expected in ((main, "t", sent[::2]), (audit, "all.audit.x", sent[1::2])):
        assert found.keys() == {topic}
        assert sorted(found[topic]) == sorted(m.id for m in expected)
        for key in ("key-0", "key-1", "key-2"):
            of_key = [m.id for m in expected if m.key == key]
            assert [id_ for id_ in found[topic] if id_ in of_key] == of_key


async def test_a_broker_that_is_down_delays_only_what_is_routed_to_it() -> None:
    """D6"""
    two = Two()
    relay = two.relay()
    async with running(relay):
        two.world.commit("a", topic="audit")
        await two.world.drained()
        two.audit.gate.fail_next(1_000_000, Unavailable("the archive is down"))
        waiting = two.world.commit(*[f"key-{n}" for n in range(50)], topic="audit")
        for _ in range(20):
            two.world.commit("a", "b")
            await two.settled("t")
        assert (relay.cause, relay.circuit.cause) == ("the archive is down", None)
        two.audit.gate._troubles.clear()
        await two.world.drained()
        assert (relay.cause, relay.circuit.cause) == (None, None)
    assert [d.id for d in two.audit.published("all.audit")][1:] == [m.id for m in waiting]
    assert {row for row in two.world.events if isinstance(row, MessageParked)} == set()
    lanes = {e.lane for e in two.world.seen(CircuitOpened) if isinstance(e, CircuitOpened)}
    assert lanes == {"orders--audit.0"}


async def test_a_broker_that_is_down_at_the_start_does_not_hold_the_others_up() -> None:
    two = Two()
    two.audit.gate.fail_next(1_000_000, Unavailable("the archive is down"))
    async with running(two.relay()):
        waiting = two.world.commit("a", topic="audit")
        two.world.commit("a", "b")
        await two.settled("t")
        assert len(two.world.seen(RelayStarted)) == 1
        two.audit.gate._troubles.clear()
        await two.world.drained()
    assert two.all_of(two.audit) == {"all.audit": [m.id for m in waiting]}


async def test_what_a_person_must_mend_at_any_broker_is_raised_at_the_start() -> None:
    two = Two()
    two.audit.gate.fail_next(1, AccessDenied("no entry to the archive"))
    with pytest.raises(AccessDenied, match="archive"):
        await two.relay().run()


async def test_an_owner_that_is_fenced_at_one_broker_campaigns_again_for_all() -> None:
    two = Two()
    async with running(two.relay()):
        two.world.commit("a", topic="audit")
        await two.world.drained()
        options = BrokerOptions(url=two.urls["audit"], source="/t")
        await memory_broker.broker(options).take_over(Lane("orders--audit"), Term("x", "another", 9))
        sent = two.world.commit("a", topic="audit") + two.world.commit("a")
        await two.world.drained()
    assert len(two.world.seen(OwnerFenced)) == 1
    assert len(two.world.seen(LeaseAcquired)) == 2
    assert two.all_of(two.main)["t"] == [sent[1].id]
    assert two.all_of(two.audit)["all.audit"][1:] == [sent[0].id]


async def test_take_overs_between_two_relays_lose_repeat_and_reorder_nothing() -> None:
    """Owners end without a word while both brokers work, answers get lost; each broker's receipts tell its own."""
    two = Two()
    for turn in range(12):
        two.main.gate.lose_answers(turn % 2, call="publish")
        two.audit.gate.lose_answers((turn + 1) % 2, call="publish")
        task = asyncio.create_task(two.relay(f"owner-{turn}").run())
        for n in range(15):
            two.world.commit(f"key-{n % 4}", topic="t" if n % 2 else "audit")
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with running(two.relay("last")):
        await two.world.drained()
    for server, there, topic in ((two.main, "t", "t"), (two.audit, "all.audit", "audit")):
        expected = [m for m in two.world.committed if m.topic == topic]
        published = server.published(there)
        assert len(published) == len(expected) == len({d.id for d in published})
        for key in {m.key for m in expected}:
            assert [d.id for d in published if d.key == key] == [m.id for m in expected if m.key == key]


async def test_a_message_that_cannot_be_addressed_is_parked_and_the_others_go_out() -> None:
    two = Two()
    options = RelayOptions(ttl_s=0.5, poll_s=0.02, retry_base_s=0.001, retry_cap_s=0.005, max_attempts=2)
    async with running(two.relay(options=options)):
        (bad,) = two.world.commit(None, topic="keyed")
        good = two.world.commit("k", topic="keyed") + two.world.commit("a")
        await two.world.drained()
    (parked,) = two.world.seen(MessageParked)
    assert isinstance(parked, MessageParked)
    assert parked.message_id == bad.id
    assert "needs its key" in parked.cause
    assert two.all_of(two.main) == {"of.k": [good[0].id], "t": [good[1].id]}


async def test_a_place_in_trouble_behind_a_route_holds_its_topic_or_only_the_key() -> None:
    """Whole topics where they go to one place; of a topic that goes to many, the others may be well."""
    two = Two()
    relay = two.relay()
    broker = relay._outlets[0].broker
    inner = broker._broker  # type: ignore[attr-defined]
    usual = inner.failure

    def failure(message: Stored) -> Failure | None:
        if message.topic in {"t", "of.k1"}:
            return Failure(message, Unavailable("the place is down"), whole_topic=True)
        result: Failure | None = usual(message)
        return result

    inner.failure = failure
    async with running(relay):
        two.world.commit("a")
        waiting, *_ = two.world.commit("k1", topic="keyed")
        two.world.commit("k2", topic="keyed")
        await two.world.until(lambda: bool(two.world.seen(TopicHeld)) and "of.k2" in two.all_of(two.main))
    assert {e.topic for e in two.world.seen(TopicHeld) if isinstance(e, TopicHeld)} == {"t"}
    failed = [e for e in two.world.seen(MessageFailed) if isinstance(e, MessageFailed)]
    assert {e.message_id for e in failed} == {waiting.id}
    assert not two.world.seen(MessageParked)
