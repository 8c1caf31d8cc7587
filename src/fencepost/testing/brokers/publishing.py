"""Rules of publishing: what is handed over is read, all of it, in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencepost.message import Stored
from fencepost.ports import Delivery, Handoff
from fencepost.testing.harness import Seen
from fencepost.testing.messages import message
from fencepost.testing.on_broker import OnBroker
from fencepost.testing.places import BrokerPlace

MANY = 2_000


def by_key(messages: Iterable[Stored]) -> dict[str, list[str]]:
    """Ids in order, for each key."""
    found: dict[str, list[str]] = {}
    for m in messages:
        if m.key is not None:
            found.setdefault(m.key, []).append(m.id)
    return found


def seen_by_key(messages: Iterable[Seen]) -> dict[str, list[str]]:
    """The same of what a reader sees."""
    found: dict[str, list[str]] = {}
    for m in messages:
        if "subject" in m.attributes:
            found.setdefault(m.attributes["subject"], []).append(m.id)
    return found


async def check_read(place: BrokerPlace, batch: Sequence[Stored]) -> None:
    """A reader of the topic sees exactly these messages, each once, each key in order."""
    seen = await place.read()
    assert sorted(m.id for m in seen) == sorted(m.id for m in batch)
    assert seen_by_key(seen) == by_key(batch)


async def publish_all(handoff: Handoff, batch: Sequence[Stored]) -> None:
    """Publish as a relay does, which hands over again what has not been sent yet: a broker may take a part in time."""
    rest = list(batch)
    while rest:
        outcome = await handoff.publish(rest)
        assert list(outcome.failed) == []
        assert outcome.published, "a publish without an error neither published nor refused anything"
        done = {m.position for m in outcome.published}
        rest = [m for m in rest if m.position not in done]


class PublishingRules(OnBroker):
    """Complete, in order, and acknowledged only then."""

    async def test_the_broker_says_what_it_gives(self, place: BrokerPlace) -> None:
        given = place.capabilities
        assert isinstance(given.delivery, Delivery)
        assert bool(given.reason) is (given.delivery is not Delivery.ATOMIC)
        assert given.batch_max is None or given.batch_max > 0
        assert given.message_bytes_max is None or given.message_bytes_max > 0

    async def test_a_batch_is_published_complete_and_in_order(self, place: BrokerPlace) -> None:
        handoff = await place.owner()
        batch = place.batch(*["a", "b", "a", None, "c", "b", "a", None] * 5)
        outcome = await handoff.publish(batch)
        assert list(outcome.published) == batch
        assert list(outcome.failed) == []
        await check_read(place, batch)

    async def test_batches_follow_each_other_in_order(self, place: BrokerPlace) -> None:
        handoff = await place.owner()
        published = []
        for _ in range(10):
            batch = place.batch("a", "b", None, "a")
            await publish_all(handoff, batch)
            published += batch
        await check_read(place, published)

    async def test_a_large_batch_is_published_complete(self, place: BrokerPlace) -> None:
        count = min(MANY, place.capabilities.batch_max or MANY)
        batch = place.batch(*[f"key-{i % 50}" for i in range(count)])
        await publish_all(await place.owner(), batch)
        await check_read(place, batch)

    async def test_one_batch_may_have_several_topics(self, place: BrokerPlace) -> None:
        topics = [place.new_topic() for _ in range(3)]
        batch = [place.take(message("k", topic=topic)) for topic in topics * 4]
        await publish_all(await place.owner(), batch)
        for topic in topics:
            assert [m.id for m in await place.read(topic)] == [m.id for m in batch if m.topic == topic]

    async def test_an_empty_batch_is_nothing(self, place: BrokerPlace) -> None:
        handoff = await place.owner()
        before = handoff.receipts.named()
        outcome = await handoff.publish([])
        assert (list(outcome.published), list(outcome.failed)) == ([], [])
        assert handoff.receipts.named() == before
        batch = place.batch("k")
        await publish_all(handoff, batch)
        await check_read(place, batch)

    async def test_two_owners_of_different_lanes_share_a_topic(self, place: BrokerPlace) -> None:
        other_lane = place.beside()
        one, two = await place.owner(), await place.owner(lane=other_lane)
        published = []
        for _ in range(5):
            for handoff, key in ((one, "one"), (two, "two")):
                batch = place.batch(key, key)
                await publish_all(handoff, batch)
                published += batch
        await check_read(place, published)
