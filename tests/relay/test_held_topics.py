"""A place that is in trouble (a webhook that is down, a missing exchange): its topic waits, and nothing is parked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from fencepost.brokers.memory import MemoryBroker, MemoryHandoff
from fencepost.errors import FencepostError, SchemaMissing, Unavailable
from fencepost.events import CircuitOpened, MessageFailed, MessageParked, TopicHeld, TopicResumed
from fencepost.message import Stored
from fencepost.ports import Failure, Outcome
from tests.relay.world import FAST, World, check_exactly_once, new_world, per_key

DOWN = Unavailable("the hook of billing is down")


def in_trouble(
    monkeypatch: pytest.MonkeyPatch,
    is_down: Callable[[Stored], bool],
    error: FencepostError = DOWN,
    pause_s: float = 0.0,
) -> list[str]:
    """Let messages fail because of their place; the ids of those that were tried."""
    original, tried = MemoryBroker.failure, []

    def failure(self: MemoryBroker, message: Stored) -> Failure | None:
        tried.append(message.id)
        if is_down(message):
            return Failure(message, error, whole_topic=True, pause_s=pause_s)
        return original(self, message)

    monkeypatch.setattr(MemoryBroker, "failure", failure)
    return tried


async def settled(world: World, topic: str) -> None:
    await world.until(lambda: all(row.message.topic != topic for row in world.database.rows))


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
async def test_other_topics_go_on_and_no_attempt_is_spent(monkeypatch: pytest.MonkeyPatch, delivery: str) -> None:
    """D6, B7: also where everything at the head of the outbox, pages of it, is of the topic that waits."""
    world, down = new_world(delivery=delivery), [True]
    in_trouble(monkeypatch, lambda message: message.topic == "billing" and down[0])
    world.commit(*[f"key-{n % 5}" for n in range(100)], topic="billing")
    async with world.owned(options=replace(FAST, max_attempts=2)):
        for _ in range(10):
            world.commit("key-0", "key-1")
            await settled(world, "t")
        await world.until(lambda: len(world.seen(TopicHeld)) > 3)
        assert {row.message.attempts for row in world.database.rows} == {0}
        down[0] = False
        await world.drained()
    assert world.seen(MessageParked) == world.seen(MessageFailed) == world.seen(CircuitOpened) == []
    for topic in ("t", "billing"):
        expected = [m for m in world.committed if m.topic == topic]
        found = per_key(world, topic)
        for key in {m.key for m in expected}:
            assert found[key] == [m.id for m in expected if m.key == key]


async def test_it_is_told_with_its_cause_and_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    world, down = new_world(), [True]
    in_trouble(monkeypatch, lambda _: down[0])
    world.commit("a", "b", topic="billing")
    async with world.owned():
        await world.until(lambda: len(world.seen(TopicHeld)) >= 3)
        down[0] = False
        await world.drained()
    held = [e for e in world.seen(TopicHeld) if isinstance(e, TopicHeld)]
    assert {(e.topic, e.cause) for e in held} == {("billing", str(DOWN))}
    assert [e.failures for e in held] == list(range(1, len(held) + 1)), "once for each try, not for each message"
    (resumed,) = world.seen(TopicResumed)
    assert isinstance(resumed, TopicResumed)
    assert resumed.topic == "billing"
    assert resumed.held_s > 0
    check_exactly_once_on(world, "billing")


def check_exactly_once_on(world: World, topic: str) -> None:
    assert world.published(topic) == [m.id for m in world.committed]


async def test_what_a_person_must_mend_is_tried_at_the_longest_pause_only(monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world()
    in_trouble(monkeypatch, lambda message: message.topic == "billing", SchemaMissing("no exchange billing"))
    world.commit("a", topic="billing")
    async with world.owned(options=replace(FAST, retry_cap_s=30.0)):
        world.commit("a")
        await settled(world, "t")
    (held,) = world.seen(TopicHeld)
    assert isinstance(held, TopicHeld)
    assert held.delay_s == 30.0


async def test_a_place_that_asks_for_a_pause_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world()
    tried = in_trouble(monkeypatch, lambda message: message.topic == "billing", pause_s=60.0)
    (asked,) = world.commit("a", topic="billing")
    async with world.owned():
        for _ in range(5):
            world.commit("a")
            await settled(world, "t")
    assert tried.count(asked.id) == 1


async def test_what_was_read_ahead_of_the_topic_is_not_sent_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next page is read while the place fails; its messages of the topic must wait behind those that failed."""
    world, down = new_world(), [True]
    in_trouble(monkeypatch, lambda message: message.topic == "t" and down[0])
    original = MemoryHandoff.publish

    async def once_down(self: MemoryHandoff, batch: Sequence[Stored]) -> Outcome:
        outcome = await original(self, batch)
        down[0] = False  # it is back at once, so only the order of the relay keeps the rest behind
        return outcome

    monkeypatch.setattr(MemoryHandoff, "publish", once_down)
    world.commit(*["k"] * 12)
    async with world.owned():
        await world.drained()
    check_exactly_once(world)
