"""A broker plug-in that is right, on a bad network: NATS, of which every third answer is lost.

    fencepost torture --broker tests.torture.loses_answers+nats://host:4222

A relay that reads the receipts finds out what became of those batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from fencepost.brokers import nats
from fencepost.errors import ConnectionLost
from fencepost.message import Stored
from fencepost.ports import Broker, BrokerOptions, Handoff, Lane, Outcome, Term
from fencepost.receipt import Receipts

EVERY = 3


def broker(options: BrokerOptions) -> Any:
    """As every plug-in has it."""
    return Wrapped(real(options), LosesAnswers)


def real(options: BrokerOptions) -> Broker:
    """The plug-in that the URL names behind the "+"."""
    return nats.broker(dataclasses.replace(options, url=options.url.partition("+")[2]))


class LosesAnswers:
    """A handoff that publishes, and then does not always say so. ``batches`` counts those of this process."""

    def __init__(self, real: Handoff, batches: list[int]) -> None:
        self._real, self._batches = real, batches

    @property
    def receipts(self) -> Receipts:
        """See Handoff."""
        return self._real.receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff."""
        outcome = await self._real.publish(batch)
        self.lose()
        return outcome

    def lose(self) -> None:
        """Every third time the answer does not come."""
        self._batches[0] += 1
        if self._batches[0] % EVERY == 0:
            raise ConnectionLost("the answer was lost on purpose")

    async def close(self) -> None:
        """See Handoff."""
        await self._real.close()


class Wrapped:
    """The real broker, whose handoffs are of another kind."""

    def __init__(self, real: Broker, kind: type[LosesAnswers]) -> None:
        self._real, self._kind, self._batches = real, kind, [0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def take_over(self, lane: Lane, term: Term) -> LosesAnswers:
        """See Broker."""
        return self._kind(await self._real.take_over(lane, term), self._batches)
