"""Deliberately wrong brokers: each is the one in memory, weakened in one place."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fencepost import plugins
from fencepost.brokers import memory
from fencepost.brokers.memory import MemoryBroker, MemoryHandoff
from fencepost.errors import ParkError
from fencepost.message import Stored
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Failure, Lane, Outcome, Term
from fencepost.receipt import Receipt, Receipts


class PlantedBroker(MemoryBroker):
    """A broker whose handoffs are of another class."""

    handoff: type[MemoryHandoff] = MemoryHandoff

    async def take_over(self, lane: Lane, term: Term) -> MemoryHandoff:
        handoff = self.handoff(self, lane, term)
        self._handoffs.append(handoff)
        return handoff


class _FenceNotChecked(MemoryHandoff):
    def _take(self, batch: Sequence[Stored]) -> Outcome:
        self._fence = self._lane.fence
        return super()._take(batch)


class _FenceIsTheToken(MemoryHandoff):
    def __init__(self, broker: MemoryBroker, lane: Lane, term: Term) -> None:
        fence = broker.server._lane(lane).fence
        super().__init__(broker, lane, term)
        self._lane.fence = max(fence, term.token)
        self._fence = term.token


class _WritesNoReceipt(MemoryHandoff):
    def _take(self, batch: Sequence[Stored]) -> Outcome:
        before = list(self._lane.receipts)
        outcome = super()._take(batch)
        self._lane.receipts.clear()
        self._lane.receipts.extend(before)
        return outcome


class _KeepsTheFirstReceipts(MemoryHandoff):
    def _take(self, batch: Sequence[Stored]) -> Outcome:
        first = list(self._lane.receipts)
        outcome = super()._take(batch)
        if len(first) == self._lane.receipts.maxlen:
            self._lane.receipts.clear()
            self._lane.receipts.extend(first)
        return outcome


class _KeepsOneReceipt(MemoryHandoff):
    def _take(self, batch: Sequence[Stored]) -> Outcome:
        outcome = super()._take(batch)
        self._lane.receipts = deque(list(self._lane.receipts)[-1:], maxlen=64)
        return outcome


class _TakeOversUseUpReceipts(MemoryHandoff):
    def __init__(self, broker: MemoryBroker, lane: Lane, term: Term) -> None:
        super().__init__(broker, lane, term)
        last = self._lane.receipts[-1].counter if self._lane.receipts else 0
        self._lane.receipts.append(
            Receipt.of([], fence=self._fence, counter=last + 1, token=term.token, owner=term.owner)
        )


class _PublishesPartOfABatch(MemoryHandoff):
    def _take_all_or_nothing(self, batch: Sequence[Stored], failures: Sequence[Failure]) -> Outcome:
        bad = {f.message.position for f in failures}
        outcome = super()._take_all_or_nothing([m for m in batch if m.position not in bad], ())
        return Outcome(outcome.published, failures)


class _WritesTheReceiptAfterwards(MemoryHandoff):
    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        before = list(self._lane.receipts)
        outcome = await super().publish(batch)
        after = list(self._lane.receipts)
        self._lane.receipts.clear()
        self._lane.receipts.extend(before)
        await asyncio.sleep(0.003)
        self._lane.receipts.clear()
        self._lane.receipts.extend(after)
        return outcome


class _FailsTheWholeBatch(MemoryHandoff):
    def _take(self, batch: Sequence[Stored]) -> Outcome:
        outcome = super()._take(batch)
        return Outcome((), [Failure(m, ParkError("one of them is bad")) for m in batch]) if outcome.failed else outcome


class _NamesOneFailureAsPublished(MemoryHandoff):
    def _take(self, batch: Sequence[Stored]) -> Outcome:
        outcome = super()._take(batch)
        return outcome if not outcome.failed else Outcome(batch)


class _PublishesAfterClosing(MemoryHandoff):
    def _must_be_alive(self) -> None:
        self._alive = True


class _PublishesInAnotherOrder(MemoryHandoff):
    def _append(self, batch: Sequence[Stored]) -> None:
        super()._append(batch[::-1])


class _ForgetsTombstones(MemoryHandoff):
    def _append(self, batch: Sequence[Stored]) -> None:
        super()._append([m._replace(payload=m.payload or b"") for m in batch])


class _DropsHeaders(MemoryHandoff):
    def _append(self, batch: Sequence[Stored]) -> None:
        super()._append([m._replace(headers=None) for m in batch])


class _ReceiptsWithoutDigests(MemoryHandoff):
    @property
    def receipts(self) -> Receipts:
        kept = [
            Receipt(r.fence, r.counter, r.token, r.owner, r.positions, (0,) * len(r.digests))
            for r in self._receipts._kept
        ]
        return Receipts(kept)


def _with(handoff: type[MemoryHandoff]) -> type[PlantedBroker]:
    return type(handoff.__name__, (PlantedBroker,), {"handoff": handoff})


class LanesShareAFence(PlantedBroker):
    async def take_over(self, lane: Lane, term: Term) -> MemoryHandoff:
        return await super().take_over(Lane(lane.relay), term)


class PreparingFences(PlantedBroker):
    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        self.server._lane(lane).fence += 1


class ClaimsToBeAtomic(PlantedBroker):
    """It is a plain broker that says something else."""

    async def open(self) -> Capabilities:
        self.delivery = Delivery.PLAIN
        return Capabilities(delivery=Delivery.ATOMIC, message_bytes_max=memory.MESSAGE_BYTES_MAX)


class GivesNoReason(PlantedBroker):
    """It is a plain broker that does not say why."""

    async def open(self) -> Capabilities:
        self.delivery = Delivery.PLAIN
        return Capabilities(delivery=Delivery.PLAIN)


class DoesNotDeduplicate(PlantedBroker):
    """It is a plain broker that says that it recognises repeats."""

    async def open(self) -> Capabilities:
        self.delivery = Delivery.PLAIN
        return Capabilities(delivery=Delivery.DEDUPLICATING, reason="planted")


BROKERS: Mapping[str, type[PlantedBroker]] = {
    "unchanged": PlantedBroker,
    "fence_not_checked": _with(_FenceNotChecked),
    "fence_is_the_token": _with(_FenceIsTheToken),
    "writes_no_receipt": _with(_WritesNoReceipt),
    "keeps_the_first_receipts": _with(_KeepsTheFirstReceipts),
    "keeps_one_receipt": _with(_KeepsOneReceipt),
    "take_overs_use_up_receipts": _with(_TakeOversUseUpReceipts),
    "publishes_part_of_a_batch": _with(_PublishesPartOfABatch),
    "writes_the_receipt_afterwards": _with(_WritesTheReceiptAfterwards),
    "fails_the_whole_batch": _with(_FailsTheWholeBatch),
    "names_failures_as_published": _with(_NamesOneFailureAsPublished),
    "publishes_after_closing": _with(_PublishesAfterClosing),
    "publishes_in_another_order": _with(_PublishesInAnotherOrder),
    "forgets_tombstones": _with(_ForgetsTombstones),
    "drops_headers": _with(_DropsHeaders),
    "receipts_without_digests": _with(_ReceiptsWithoutDigests),
    "lanes_share_a_fence": LanesShareAFence,
    "preparing_fences": PreparingFences,
    "claims_to_be_atomic": ClaimsToBeAtomic,
    "gives_no_reason": GivesNoReason,
    "does_not_deduplicate": DoesNotDeduplicate,
}
"""Each wrong broker, by the name of what is wrong with it."""


def broker_of(kind: type[PlantedBroker]) -> Any:
    """The factory of a plug-in with these brokers."""

    def broker(options: BrokerOptions) -> PlantedBroker:
        right = memory.broker(replace(options, url=plugins.spoken(options.url)))
        return kind(right.server, options, right._settings)

    return broker
