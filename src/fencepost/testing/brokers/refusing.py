"""Rules of messages that the broker does not take: they alone are refused, the others go out."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.errors import ParkError
from fencepost.message import Stored
from fencepost.ports import Failure, Handoff
from fencepost.testing.brokers.publishing import check_read
from fencepost.testing.messages import message
from fencepost.testing.on_broker import OnBroker
from fencepost.testing.places import BrokerPlace, fresh


async def deliver(handoff: Handoff, batch: Sequence[Stored]) -> list[Failure]:
    """Publish as a relay does: what failed is set aside, the rest is tried again. Returns what failed."""
    failures: list[Failure] = []
    rest = list(batch)
    while rest:
        outcome = await handoff.publish(rest)
        done = {m.position for m in outcome.published} | {f.message.position for f in outcome.failed}
        assert done, "a publish without an error neither published nor refused anything"
        failures += outcome.failed
        rest = [m for m in rest if m.position not in done]
    return failures


class RefusingRules(OnBroker):
    """A batch in which one message is bad is not a bad batch."""

    async def test_a_bad_message_is_named_and_the_others_go_out_once(self, place: BrokerPlace) -> None:
        """E1"""
        handoff = await place.owner()
        good = place.batch(*[f"key-{i}" for i in range(20)])
        bad = place.unpublishable("bad")
        outcome = await handoff.publish([*good[:10], bad, *good[10:]])
        assert [f.message.id for f in outcome.failed] == [bad.id]
        assert isinstance(outcome.failed[0].error, ParkError)
        assert str(outcome.failed[0].error)
        if place.atomic:
            assert list(outcome.published) == []
            assert await place.ids() == []
            assert handoff.receipts.named() == set()
            outcome = await handoff.publish(good)
        assert list(outcome.published) == good
        await check_read(place, good)

    async def test_a_bad_message_alone_is_named(self, place: BrokerPlace) -> None:
        handoff = await place.owner()
        bad = place.unpublishable()
        outcome = await handoff.publish([bad])
        assert [f.message.id for f in outcome.failed] == [bad.id]
        assert list(outcome.published) == []
        good = place.batch("k")
        assert list((await handoff.publish(good)).published) == good
        await check_read(place, good)

    async def test_several_bad_messages_are_all_found(self, place: BrokerPlace) -> None:
        handoff = await place.owner()
        good = place.batch("a", "b", "a")
        bad = [place.unpublishable(), place.unpublishable("a")]
        failures = await deliver(handoff, [bad[0], *good[:2], bad[1], *good[2:]])
        assert sorted(f.message.id for f in failures) == sorted(m.id for m in bad)
        await check_read(place, good)

    async def test_a_topic_that_the_broker_cannot_have_fails_alone(self, place: BrokerPlace) -> None:
        """E4: each of these topics is either read afterwards, or its message is refused; nothing else suffers."""
        handoff = await place.owner()
        name = fresh()
        topics = [
            f"{name}/b",
            f"{name}.b",
            f"{name}_b",
            f".{name}",
            f"{name}.",
            f"{name}..b",
            f"-{name}",
            "..",
            name * 20,
        ]
        odd = [place.take(message("k", topic=topic)) for topic in topics]
        good = place.batch(*["k"] * len(odd))
        failures = await deliver(handoff, [m for pair in zip(odd, good, strict=True) for m in pair])
        refused = {f.message.id for f in failures}
        assert refused <= {m.id for m in odd}
        for m in odd:
            if m.id not in refused:
                assert m.id in [seen.id for seen in await place.read(m.topic)], m.topic
        await check_read(place, good)
