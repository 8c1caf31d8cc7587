"""Rules of receipts: what each batch published, kept by the broker, the last ones, exactly."""

from __future__ import annotations

from fencepost.receipt import RECEIPTS_KEPT, digest
from fencepost.testing.brokers.fencing import names, only_atomic
from fencepost.testing.brokers.publishing import check_read
from fencepost.testing.on_broker import OnBroker
from fencepost.testing.places import BrokerPlace

TAKE_OVER_RECEIPTS = 4
"""Receipts without a batch, such as a take-over may write, may take this many of the places."""


class ReceiptRules(OnBroker):
    """A receipt is there if and only if its batch is."""

    async def test_a_receipt_names_its_batch_exactly(self, place: BrokerPlace) -> None:
        only_atomic(place)
        handoff = await place.owner(token=7, name="host:1")
        first, gap, second = place.batch("a", "b"), place.batch("skipped"), place.batch("a", None, "c")
        assert len(gap) == 1
        for batch in (first, second):
            await handoff.publish(batch)
            receipt = handoff.receipts.last
            assert receipt is not None
            assert receipt.positions == tuple(m.position for m in batch)
            assert receipt.digests == tuple(digest(m.id) for m in batch)
            assert (receipt.token, receipt.owner) == (7, "host:1")
        assert handoff.receipts.named() == names([*first, *second])

    async def test_the_next_owner_reads_the_receipts_exactly(self, place: BrokerPlace) -> None:
        only_atomic(place)
        handoff = await place.owner(token=7, name="old")
        batches = [place.batch("a", "b"), place.batch("c"), place.batch(*[None] * 300)]
        for batch in batches:
            await handoff.publish(batch)
        await handoff.close()
        new = await place.owner(token=8, name="new")
        assert new.receipts.named() == names([m for batch in batches for m in batch])
        assert new.receipts.named() == handoff.receipts.named()
        assert new.receipts.ranges() == handoff.receipts.ranges()
        assert new.receipts.highest() == batches[-1][-1].position

    async def test_a_receipt_of_positions_with_gaps_and_of_texts_is_read_exactly(self, place: BrokerPlace) -> None:
        only_atomic(place)
        messages = place.batch(*[f"key-{i}" for i in range(200)])
        far = [m._replace(position=2**60 + i * 3) for i, m in enumerate(messages[100:150])]
        texts = [m._replace(position=f"1700000000000-{i}") for i, m in enumerate(messages[150:])]
        handoff = await place.owner()
        await handoff.publish([*messages[:100:3], *far])
        await (await place.owner(lane=place.beside())).publish(texts)
        assert (await place.owner(token=2)).receipts.named() == names([*messages[:100:3], *far])
        assert (await place.owner(lane=place.beside(), token=2)).receipts.named() == names(texts)

    async def test_receipts_count_up_across_owners(self, place: BrokerPlace) -> None:
        only_atomic(place)
        counters = []
        for token in range(3):
            handoff = await place.owner(token=token)
            for _ in range(2):
                await handoff.publish(place.batch("a"))
                assert handoff.receipts.last is not None
                counters.append(handoff.receipts.last.counter)
        assert counters == sorted(set(counters))

    async def test_the_last_receipts_are_kept_and_no_more(self, place: BrokerPlace) -> None:
        only_atomic(place)
        handoff = await place.owner()
        batches = [place.batch("a") for _ in range(RECEIPTS_KEPT + 6)]
        for batch in batches:
            await handoff.publish(batch)
        certain = names([m for batch in batches[-RECEIPTS_KEPT + TAKE_OVER_RECEIPTS :] for m in batch])
        possible = names([m for batch in batches[-RECEIPTS_KEPT:] for m in batch])
        for receipts in (handoff.receipts, (await place.owner(token=2)).receipts):
            assert len(receipts) <= RECEIPTS_KEPT
            assert certain <= receipts.named() <= possible
        await check_read(place, [m for batch in batches for m in batch])

    async def test_taking_over_again_and_again_forgets_no_receipt(self, place: BrokerPlace) -> None:
        """An owner that dies before it has settled, more often than there are places for receipts."""
        only_atomic(place)
        broker = await place.broker()
        batch = place.batch("a", "b")
        await (await place.owner(broker)).publish(batch)
        for token in range(RECEIPTS_KEPT + 6):
            handoff = await place.owner(broker, token=token)
            assert handoff.receipts.named() == names(batch), f"after {token + 1} take-overs"
            await handoff.close()
