"""A broker that gets its messages under the topics that the routes give them.

Of several brokers each is worked on by itself (``service.py``), on what is routed to it; the rest is left alone. So a
message never goes to a broker that it was not routed to, and a broker that is down delays nobody else's messages.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fencepost.errors import ParkError
from fencepost.message import Stored
from fencepost.ports import Broker, Capabilities, Failure, Handoff, Lane, Outcome, Term
from fencepost.receipt import Receipts
from fencepost.routes import Router


class Addressing:
    """See fencepost.ports.Broker."""

    def __init__(self, broker: Broker, router: Router) -> None:
        self._broker, self._router = broker, router

    async def open(self) -> Capabilities:
        return await self._broker.open()

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        await self._broker.prepare(lane, topics)

    async def take_over(self, lane: Lane, term: Term) -> Handoff:
        return _Addressed(await self._broker.take_over(lane, term), self._router)

    async def close(self) -> None:
        await self._broker.close()


class _Addressed:
    def __init__(self, handoff: Handoff, router: Router) -> None:
        self._handoff, self._router = handoff, router

    @property
    def receipts(self) -> Receipts:
        return self._handoff.receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """Where some cannot be addressed, these are named first and nothing is sent: the rest is tried at once."""
        addressed, failed = [], []
        for message in batch:
            try:
                addressed.append(message._replace(topic=self._router.topic_of(message)))
            except ParkError as error:
                failed.append(Failure(message, error))
        if failed:
            return Outcome((), failed)
        outcome = await self._handoff.publish(addressed)
        own = {message.position: message for message in batch}
        return Outcome(
            [own[m.position] for m in outcome.published],
            [self._own(failure, own[failure.message.position]) for failure in outcome.failed],
        )

    def _own(self, failure: Failure, message: Stored) -> Failure:
        """The same of the message as the outbox has it. Where its topic goes to several places, others may be well."""
        whole = failure.whole_topic and self._router.keeps_together(message)
        return replace(failure, message=message, whole_topic=whole)

    async def close(self) -> None:
        await self._handoff.close()
