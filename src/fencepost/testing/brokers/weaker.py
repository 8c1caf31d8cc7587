"""Rules of brokers that are not atomic: they promise less, and must not seem to promise more."""

from __future__ import annotations

import pytest

from fencepost.ports import Delivery
from fencepost.testing.brokers.publishing import check_read, publish_all
from fencepost.testing.on_broker import OnBroker
from fencepost.testing.places import BrokerPlace


class WeakerRules(OnBroker):
    """Repeats are recognised, or marked."""

    async def test_a_broker_without_receipts_claims_none(self, place: BrokerPlace) -> None:
        if place.atomic:
            pytest.skip("a rule of brokers without receipts: this one is atomic and has them")
        await publish_all(await place.owner(), place.batch("a", "b"))
        assert (await place.owner(token=2)).receipts.named() == set()

    async def test_a_deduplicating_broker_recognises_a_repeat(self, place: BrokerPlace) -> None:
        if place.capabilities.delivery is not Delivery.DEDUPLICATING:
            pytest.skip("a rule of deduplicating brokers, which this one does not claim to be")
        batch = place.batch("a", "b", "a", None)
        await publish_all(await place.owner(), batch)
        again = [m._replace(in_doubt=True) for m in batch]
        outcome = await (await place.owner(token=2)).publish(again)
        assert [m.id for m in outcome.published] == [m.id for m in batch]
        await check_read(place, batch)

    async def test_a_plain_broker_publishes_a_repeat_with_its_mark(self, place: BrokerPlace) -> None:
        """A5: the same id, the same bytes, and the mark."""
        if place.capabilities.delivery is not Delivery.PLAIN:
            pytest.skip("a rule of plain brokers: this one never repeats a message with a mark")
        (m,) = place.batch("a")
        await publish_all(await place.owner(), [m])
        await publish_all(await place.owner(token=2), [m._replace(in_doubt=True)])
        first, second = await place.read()
        assert (first.id, first.payload) == (second.id, second.payload) == (m.id, m.payload)
        assert "possiblerepeat" not in first.attributes
        assert second.attributes["possiblerepeat"] == "true"
