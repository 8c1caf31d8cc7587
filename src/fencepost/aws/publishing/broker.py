"""The broker and its handoffs, for both services."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial

from fencepost.aws.address import Server
from fencepost.aws.client import Client
from fencepost.aws.publishing.encode import PREFIX, Encoder
from fencepost.aws.publishing.faults import About
from fencepost.aws.publishing.places import Places, Refused, Service
from fencepost.aws.publishing.sending import Batch
from fencepost.aws.publishing.settings import Settings
from fencepost.envelope import Format
from fencepost.errors import ParkError, Unavailable
from fencepost.handoffs import PlainHandoff, Validity, publish_s
from fencepost.message import Stored
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Failure, Lane, Outcome, Term

BATCH_MAX = 500
"""Messages of a batch: about what is sent in its time. More would be marked as in doubt, and not be sent."""
_GRACE_S = 1.0
"""What a handoff waits for a batch beyond the batch's own time."""


class AwsBroker:
    """See fencepost.ports.Broker."""

    def __init__(self, options: BrokerOptions, server: Server, settings: Settings, service: Service) -> None:
        self._options, self._server, self._settings, self._service = options, server, settings, service
        self._client = Client(server, options.timeout_s, options.clock, attempts=1, connections=settings.connections)
        self._places = Places(service, self._client, server, settings, create=options.create)
        self._encoder = Encoder(options.envelope(PREFIX, usual=Format.CLOUDEVENTS_STRUCTURED), settings)
        self._opening = asyncio.Lock()
        self._handoffs: set[PlainHandoff] = set()
        self._at_once: dict[Lane, int] = {}
        self._publish_s = min(publish_s(settings.publish_s, options), options.timeout_s)

    async def open(self) -> Capabilities:
        """See Broker."""
        await self._ready()
        await self._places.probe()
        title = self._settings.title
        if self._settings.fifo:
            delivery, reason = Delivery.DEDUPLICATING, f"{title} recognises a repeat for 5 minutes, and has no fence"
        else:
            delivery, reason = Delivery.PLAIN, f"{title} without FIFO recognises no repeat, and has no fence"
        return Capabilities(
            delivery=delivery, reason=reason, batch_max=BATCH_MAX, message_bytes_max=self._settings.message_bytes_max
        )

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker. Finds the places of these topics, or makes them; what has none is left to ``publish``."""
        await self._ready()
        for name in self._names(topics):
            try:
                await self._places.address(name)
            except Refused as error:
                if error.fault.about is About.SERVICE:
                    raise error.fault.error from error

    async def rehearse(self, lane: Lane) -> None:
        """Raise FixError where the only place of all topics is missing and may not be made. Changes nothing."""
        await self._ready()
        if not self._settings.by_topic and not self._options.create:
            try:
                await self._places.check(self._places.names.of(""))
            except Refused as error:
                raise error.fault.error from error

    async def take_over(self, lane: Lane, term: Term) -> PlainHandoff:
        """See Broker. Nobody is fenced: the services have nothing that could."""
        await self._ready()
        send = partial(self._send, lane, Validity(lane))
        handoff = PlainHandoff(lane, self._publish_s + _GRACE_S, send, self._handoffs.discard)
        self._handoffs.add(handoff)
        return handoff

    async def close(self) -> None:
        """See Broker."""
        for handoff in tuple(self._handoffs):
            await handoff.close()
        await self._client.close()

    async def _send(self, lane: Lane, validity: Validity, batch: Sequence[Stored]) -> Outcome:
        """Publish a batch. Where something breaks after a part, that part is returned and the next call raises."""
        sending = Batch(self._service, self._client, self._server, self._places, self._encoder)
        with validity.publishing(sending):
            at_once = self._begin(lane)
            await sending.send(batch, connections=at_once, publish_s=self._publish_s)
            if sending.trouble is not None:
                raise sending.trouble
            self._at_once[lane] = min(2 * at_once, self._settings.connections)
            if not sending.published:
                self._check(batch, sending.failed)
        return sending.outcome(batch)

    def _check(self, batch: Sequence[Stored], failed: Sequence[Failure]) -> None:
        """Raise where nothing was sent, or where all topics have one place that is in trouble: it is nobody's alone."""
        if batch and not failed:
            raise Unavailable("no message could be begun in time", remedy="raise connections, or publish_s")
        held = [failure for failure in failed if failure.whole_topic]
        if held and not self._settings.by_topic:
            raise held[0].error

    def _begin(self, lane: Lane) -> int:
        """How many requests of the next batch may be under way at once.

        After a batch that was given up it is one, and twice as many after each that went well: a server that is slower
        than our patience still works on what was given up, and would never get to the end of what is sent all at once.
        """
        at_once = self._at_once.get(lane, self._settings.connections)
        self._at_once[lane] = 1  # until it is known that this batch went well
        return at_once

    def _names(self, topics: Collection[str]) -> Sequence[str]:
        found: dict[str, None] = {}
        for topic in topics:
            try:
                found[self._places.names.of(topic)] = None
            except ParkError:
                continue  # publishing its messages tells why it has no name
        return list(found)

    async def _ready(self) -> None:
        async with self._opening:
            await self._client.open()
