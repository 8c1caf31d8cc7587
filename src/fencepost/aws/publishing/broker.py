"""The broker and its handoffs, for both services."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from fencepost.aws.address import Server
from fencepost.aws.client import Client
from fencepost.aws.publishing.encode import PREFIX, Encoder
from fencepost.aws.publishing.faults import About
from fencepost.aws.publishing.places import Places, Refused, Service
from fencepost.aws.publishing.sending import Batch
from fencepost.aws.publishing.settings import Settings
from fencepost.calls import Calls
from fencepost.envelope import Format
from fencepost.errors import ConnectionLost, FencepostError, ParkError, Unavailable
from fencepost.message import Stored
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Lane, Outcome, Term
from fencepost.receipt import Receipts

BATCH_MAX = 500
"""Messages of a batch: about what is sent in its time. More would be marked as in doubt, and not be sent."""
_GRACE_S = 1.0
"""What a handoff waits for a batch beyond the batch's own time."""


class AwsBroker:
    """See fencepost.ports.Broker."""

    def __init__(self, options: BrokerOptions, server: Server, settings: Settings, service: Service) -> None:
        self._options, self._server, self.settings, self.service = options, server, settings, service
        self.client = Client(server, options.timeout_s, options.clock, attempts=1, connections=settings.connections)
        self.places = Places(service, self.client, server, settings, create=options.create)
        self._encoder = Encoder(options.envelope(PREFIX, usual=Format.CLOUDEVENTS_STRUCTURED), settings)
        self._opening = asyncio.Lock()
        self._handoffs: set[AwsHandoff] = set()
        self._at_once: dict[Lane, int] = {}

    async def open(self) -> Capabilities:
        """See Broker."""
        await self._ready()
        await self.places.probe()
        title = self.settings.title
        if self.settings.fifo:
            delivery, reason = Delivery.DEDUPLICATING, f"{title} recognises a repeat for 5 minutes, and has no fence"
        else:
            delivery, reason = Delivery.PLAIN, f"{title} without FIFO recognises no repeat, and has no fence"
        return Capabilities(
            delivery=delivery, reason=reason, batch_max=BATCH_MAX, message_bytes_max=self.settings.message_bytes_max
        )

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker. Finds the places of these topics, or makes them; what has none is left to ``publish``."""
        await self._ready()
        for name in self._names(topics):
            try:
                await self.places.address(name)
            except Refused as error:
                if error.fault.about is About.SERVICE:
                    raise error.fault.error from error

    async def rehearse(self, lane: Lane) -> None:
        """Raise FixError where the only place of all topics is missing and may not be made. Changes nothing."""
        await self._ready()
        if not self.settings.by_topic and not self._options.create:
            try:
                await self.places.check(self.places.names.of(""))
            except Refused as error:
                raise error.fault.error from error

    async def take_over(self, lane: Lane, term: Term) -> AwsHandoff:
        """See Broker. Nobody is fenced: the services have nothing that could."""
        await self._ready()
        handoff = AwsHandoff(self, lane)
        self._handoffs.add(handoff)
        return handoff

    async def close(self) -> None:
        """See Broker."""
        for handoff in tuple(self._handoffs):
            await handoff.close()
        await self.client.close()

    def forget(self, handoff: AwsHandoff) -> None:
        """A handoff is closed."""
        self._handoffs.discard(handoff)

    @property
    def publish_s(self) -> float:
        """How long a batch may take."""
        return min(self.settings.publish_s, self._options.timeout_s)

    def begin(self, lane: Lane) -> int:
        """How many requests of the next batch may be under way at once.

        After a batch that was given up it is one, and twice as many after each that went well: a server that is slower
        than our patience still works on what was given up, and would never get to the end of what is sent all at once.
        """
        at_once = self._at_once.get(lane, self.settings.connections)
        self._at_once[lane] = 1  # until it is known that this batch went well
        return at_once

    def went_well(self, lane: Lane, at_once: int) -> None:
        """A batch has had its answers."""
        self._at_once[lane] = min(2 * at_once, self.settings.connections)

    def batch(self) -> Batch:
        """What sends a batch."""
        return Batch(self.service, self.client, self._server, self.places, self._encoder)

    def _names(self, topics: Collection[str]) -> Sequence[str]:
        found: dict[str, None] = {}
        for topic in topics:
            try:
                found[self.places.names.of(topic)] = None
            except ParkError:
                continue
        return list(found)

    async def _ready(self) -> None:
        async with self._opening:
            await self.client.open()


class AwsHandoff:
    """See fencepost.ports.Handoff."""

    def __init__(self, broker: AwsBroker, lane: Lane) -> None:
        self._broker, self._lane, self._what = broker, lane, f"the handoff of lane {lane.name}"
        self._receipts = Receipts()
        self._calls = Calls(self._what, broker.publish_s + _GRACE_S)
        self._trouble: FencepostError | None = None

    @property
    def receipts(self) -> Receipts:
        """See Handoff: none."""
        return self._receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff. Where something breaks after a part, that part is returned and the next call raises."""
        if self._trouble is not None:
            raise self._trouble
        self._trouble = ConnectionLost(f"{self._what} is over", remedy="take over again")
        sending, at_once = self._broker.batch(), self._broker.begin(self._lane)
        outcome = await self._calls.make(
            lambda: sending.send(batch, connections=at_once, publish_s=self._broker.publish_s)
        )
        self._trouble = sending.trouble
        if self._trouble is None:
            self._broker.went_well(self._lane, at_once)
        if self._trouble is not None and not outcome.published:
            raise self._trouble
        if batch and not outcome.published and not outcome.failed:
            raise Unavailable("no message could be begun in time", remedy="raise connections, or publish_s")
        return self._of_service(outcome)

    async def close(self) -> None:
        """See Handoff. What is under way is broken off; it may arrive."""
        self._calls.end("it is over")
        self._broker.forget(self)

    def _of_service(self, outcome: Outcome) -> Outcome:
        """The outcome. Raises where all topics have one place, and that is in trouble: then it is nobody's alone."""
        held = [failure for failure in outcome.failed if failure.whole_topic]
        if held and not self._broker.settings.by_topic and not outcome.published:
            self._trouble = held[0].error
            raise self._trouble
        return outcome
