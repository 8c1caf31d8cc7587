"""Rules of atomic brokers: earlier owners are refused, a batch and its receipt are one fact."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import Fenced, FencepostError
from fencepost.message import Position, Stored
from fencepost.ports import Broker, Handoff, Lane
from fencepost.receipt import digest
from fencepost.testing.brokers.publishing import check_read
from fencepost.testing.on_broker import OnBroker
from fencepost.testing.places import BrokerPlace

TAKE_OVERS_MAX = 60
"""Of one of several owners in a race, until everything is published."""


def names(batch: Sequence[Stored]) -> set[tuple[Position, int]]:
    """What the receipt of a batch names."""
    return {(m.position, digest(m.id)) for m in batch}


def only_atomic(place: BrokerPlace) -> None:
    """Skip where the broker does not say that it fences."""
    if not place.atomic:
        pytest.skip(f"a rule of atomic brokers, which this one does not claim to be: {place.capabilities.reason}")


class FencingRules(OnBroker):
    """Whatever happens, an owner that was replaced publishes nothing, and the new one knows what was published."""

    async def test_an_earlier_owner_is_fenced_and_nothing_of_it_is_read(self, place: BrokerPlace) -> None:
        """A10"""
        only_atomic(place)
        old = await place.owner(token=1, name="old")
        batch = place.batch("a", "b")
        await old.publish(batch)
        new = await place.owner(token=2, name="new")
        late = place.batch("a", "b")
        with pytest.raises(Fenced):
            await old.publish(late)
        await check_read(place, batch)
        assert new.receipts.named() == names(batch)
        rest = place.batch("a", "c")
        await new.publish(rest)
        with pytest.raises(FencepostError):
            await old.publish(late)
        await check_read(place, [*batch, *rest])
        assert (await place.owner(token=3)).receipts.named() == names([*batch, *rest])

    async def test_an_owner_is_fenced_before_the_next_one_publishes(self, place: BrokerPlace) -> None:
        only_atomic(place)
        old = await place.owner(token=1)
        await place.owner(token=2)
        with pytest.raises(Fenced):
            await old.publish(place.batch("a"))
        assert await place.ids() == []

    async def test_the_same_client_fences_its_own_earlier_handoff(self, place: BrokerPlace) -> None:
        only_atomic(place)
        broker = await place.broker()
        old = await place.owner(broker, token=1)
        await place.owner(broker, token=2)
        with pytest.raises(FencepostError):
            await old.publish(place.batch("a"))
        assert await place.ids() == []

    async def test_the_fence_is_the_brokers_own_number_not_the_token(self, place: BrokerPlace) -> None:
        """A lease store that fell back gives lower tokens: whoever took over last publishes, whatever his token."""
        only_atomic(place)
        old = await place.owner(token=1_000, name="old")
        batch = place.batch("a")
        await old.publish(batch)
        new = await place.owner(token=3, name="new")
        assert new.receipts.named() == names(batch)
        with pytest.raises(Fenced):
            await old.publish(place.batch("late"))
        rest = place.batch("a")
        await new.publish(rest)
        await check_read(place, [*batch, *rest])

    async def test_two_owners_alternate_without_loss_or_repeat(self, place: BrokerPlace) -> None:
        only_atomic(place)
        clients = [await place.broker(), await place.broker()]
        published: list[Stored] = []
        handoffs: list[Handoff] = []
        for turn in range(6):
            handoff = await place.owner(clients[turn % 2], token=turn, name=f"owner-{turn % 2}")
            assert handoff.receipts.named() == names(published)
            if handoffs:
                with pytest.raises(Fenced):
                    await handoffs[-1].publish(place.batch("late"))
            batch = place.batch("a", "b", "a")
            await handoff.publish(batch)
            published += batch
            handoffs.append(handoff)
        await check_read(place, published)

    async def test_owners_in_a_race_publish_each_message_once(self, place: BrokerPlace) -> None:
        """A1: three owners without any lease fence each other in turn; the receipts tell each what is done."""
        only_atomic(place)
        todo = place.batch(*[f"key-{i % 7}" for i in range(60)])
        clients = [await place.broker() for _ in range(3)]
        await asyncio.wait_for(asyncio.gather(*[_work(place, client, todo) for client in clients]), 60.0)
        await check_read(place, todo)

    async def test_an_owner_that_dies_in_mid_publish_leaves_all_or_nothing(self, place: BrokerPlace) -> None:
        """A5, A8, A11: the next owner reads from the receipts whether it arrived, and goes on without waiting."""
        only_atomic(place)
        published: list[Stored] = []
        for token, after_s in enumerate((0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.1), start=1):
            handoff = await place.owner(token=token, name=f"dies-{token}")
            batch = place.batch(*["a", "b", None] * 30)
            dying = asyncio.ensure_future(handoff.publish(batch))
            await SYSTEM_CLOCK.sleep(after_s)
            dying.cancel()
            await asyncio.gather(dying, return_exceptions=True)
            successor = await place.owner(token=token + 100, name="successor")
            named = successor.receipts.named()
            assert names(published) <= named
            if not names(batch) <= named:
                assert not names(batch) & named
                await successor.publish(batch)
            published += batch
        await check_read(place, published)

    async def test_lanes_do_not_fence_each_other(self, place: BrokerPlace) -> None:
        """A12: not even where one name is the beginning of another."""
        only_atomic(place)
        relay = place.lane.relay
        lanes = [Lane(relay, 1), Lane(relay, 11), Lane(f"{relay}-1", 1), Lane(f"{relay}1", 1)]
        handoffs = [await place.owner(lane=lane, name=lane.name) for lane in lanes]
        batches = [place.batch(lane.name) for lane in lanes]
        for handoff, batch in zip(handoffs, batches, strict=True):
            await handoff.publish(batch)
        for lane, batch in zip(lanes, batches, strict=True):
            assert (await place.owner(lane=lane, token=2)).receipts.named() == names(batch)
        await check_read(place, [m for batch in batches for m in batch])


async def _work(place: BrokerPlace, client: Broker, todo: Sequence[Stored]) -> None:
    """Take over, leave out what the receipts name, publish a little, until everything is named."""
    failure: FencepostError | None = None
    for turn in range(TAKE_OVERS_MAX):
        handoff: Handoff | None = None
        try:
            handoff = await place.owner(client, token=turn)
            while rest := [m for m in todo if (m.position, digest(m.id)) not in handoff.receipts.named()]:
                await handoff.publish(rest[:5])
        except FencepostError as error:
            failure = error
            if handoff:
                await handoff.close()
            await SYSTEM_CLOCK.sleep(0.02 * 2 ** min(turn, 6) * SYSTEM_CLOCK.random())
            continue
        return
    raise AssertionError(f"{TAKE_OVERS_MAX} take-overs, and still not done: the last one failed with {failure!r}")
