"""Rules of handoffs: from a take-over to the first trouble, and void afterwards."""

from __future__ import annotations

import asyncio

import pytest

from fencepost.errors import FencepostError
from fencepost.ports import Lane
from fencepost.testing.brokers.publishing import check_read, publish_all
from fencepost.testing.messages import message
from fencepost.testing.on_broker import OnBroker
from fencepost.testing.places import BrokerPlace

END_S = 30.0


class HandoffRules(OnBroker):
    """Letting go publishes nothing, preparing disturbs nobody."""

    async def test_a_closed_handoff_publishes_nothing(self, place: BrokerPlace) -> None:
        handoff = await place.owner()
        batch = place.batch("a", "b")
        await publish_all(handoff, batch)
        await handoff.close()
        await handoff.close()
        with pytest.raises(FencepostError):
            await handoff.publish(place.batch("late"))
        await check_read(place, batch)

    async def test_a_handoff_that_published_nothing_leaves_nothing(self, place: BrokerPlace) -> None:
        await (await place.owner()).close()
        assert await place.ids() == []
        assert (await place.owner()).receipts.named() == set()

    async def test_a_lane_that_is_new_has_no_receipts(self, place: BrokerPlace) -> None:
        assert (await place.owner()).receipts.named() == set()

    async def test_a_closed_client_closes_its_handoffs(self, place: BrokerPlace) -> None:
        broker = await place.broker()
        handoff = await place.owner(broker)
        await asyncio.wait_for(broker.close(), END_S)
        await asyncio.wait_for(broker.close(), END_S)
        with pytest.raises(FencepostError):
            await handoff.publish(place.batch("late"))
        assert await place.ids() == []
        await publish_all(await place.owner(), batch := place.batch("next"))
        await check_read(place, batch)

    async def test_preparing_disturbs_nobody(self, place: BrokerPlace) -> None:
        standby = await place.broker()
        handoff = await place.owner()
        published = []
        for _ in range(3):
            await standby.prepare(place.lane, [place.topic, place.new_topic()])
            await standby.prepare(place.lane)
            batch = place.batch("a", "b")
            await publish_all(handoff, batch)
            published += batch
        await check_read(place, published)

    async def test_clients_that_prepare_at_the_same_moment_double_nothing(self, place: BrokerPlace) -> None:
        """Relays start together, and each makes sure that there is a place for the messages and the receipts."""
        clients = [await place.broker() for _ in range(4)]
        for turn in range(8):
            lane = Lane(f"{place.lane.relay}-{turn}")
            topic = place.new_topic()
            await asyncio.gather(*[client.prepare(lane, [topic]) for client in clients])
            batch = [place.take(message(key, topic=topic)) for key in ("a", "b", None)]
            await publish_all(await place.owner(clients[turn % 4], lane=lane), batch)
            assert sorted(m.id for m in await place.read(topic)) == sorted(m.id for m in batch)

    async def test_taking_over_without_preparing_works(self, place: BrokerPlace) -> None:
        handoff = await place.owner(prepare=False)
        batch = place.batch("a")
        await publish_all(handoff, batch)
        await check_read(place, batch)

    async def test_an_owner_can_take_over_again(self, place: BrokerPlace) -> None:
        """After an error whose outcome nobody knows, the same client takes over again."""
        broker = await place.broker()
        published = []
        for token in (1, 2, 3):
            handoff = await place.owner(broker, token=token)
            batch = place.batch("a", "b")
            await publish_all(handoff, batch)
            await handoff.close()
            published += batch
        await check_read(place, published)
