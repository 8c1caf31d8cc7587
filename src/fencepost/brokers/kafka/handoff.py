"""The right to publish on one lane: see fencepost.ports.Handoff."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.encoding.publisher import EncodingPublisher
from fencepost.brokers.kafka.publisher import Publisher
from fencepost.brokers.kafka.worker import Worker
from fencepost.clock import Clock
from fencepost.errors import ConnectionLost
from fencepost.message import Stored
from fencepost.ports import Failure, Outcome, Term
from fencepost.receipt import Receipt, Receipts

_SLICE = 500
"""Messages that are sent before the loop may turn to something else: 3 to 5 ms."""

_CLOSE_S = 4.0
"""How long ``close`` waits for a call that is still running; after that the worker ends alone."""


class KafkaHandoff:
    """Publishes batch after batch, each with its receipt in one transaction.

    The fence number in its receipts is one more than in the last one that it found. It is there for people to read:
    what fences is the epoch of Kafka's own producers, which ``init_transactions`` has raised.
    """

    def __init__(
        self,
        publisher: Publisher | EncodingPublisher,
        worker: Worker,
        receipts: Receipts,
        term: Term,
        timeout_s: float,
        clock: Clock,
    ) -> None:
        self._publisher, self._worker, self._receipts, self._term = publisher, worker, receipts, term
        self._timeout_s, self._clock = timeout_s, clock
        last = receipts.last
        self._fence = last.fence + 1 if last else 1
        self._counter = last.counter + 1 if last else 0
        self._void = False

    @property
    def receipts(self) -> Receipts:
        """See Handoff."""
        return self._receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff. One batch after the other."""
        if self._void:
            raise ConnectionLost("this handoff is over", remedy="take the lane over again")
        if not batch:
            return Outcome(())
        self._void = True  # until it is clear that all is well; a cancelled call never tells
        term = self._term
        receipt = Receipt.of(batch, fence=self._fence, counter=self._counter, token=term.token, owner=term.owner)
        await self._feed(batch, receipt)
        failures = await self._worker.run(self._publish, batch, receipt)
        self._void = False
        if failures:
            return Outcome((), failures)
        self._receipts.add(receipt)
        self._counter += 1
        return Outcome(batch)

    async def _feed(self, batch: Sequence[Stored], receipt: Receipt) -> None:
        """Begin, and give the producer here what it takes, slice by slice.

        In the worker the same would take longer: two threads that are both busy hand the interpreter's lock back and
        forth.
        """
        if self._publisher.begin(batch, receipt):
            for first in range(0, len(batch), _SLICE):
                if first:
                    await self._clock.sleep(0)
                if not self._publisher.feed(batch[first : first + _SLICE]):
                    break

    def _publish(self, batch: Sequence[Stored], receipt: Receipt) -> list[Failure]:
        return self._publisher.publish(batch, receipt, Deadline(self._clock, self._timeout_s))

    async def close(self) -> None:
        """See Handoff. An open transaction is aborted, so that readers and the next owner need not wait for it."""
        self._void = True
        self._publisher.stop()
        await self._worker.end(self._publisher.close, _CLOSE_S)
