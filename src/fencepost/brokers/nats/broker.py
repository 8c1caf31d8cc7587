"""The broker: one connection for all lanes, made again where it was lost, and the handoffs that the server can give."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from fencepost.brokers.nats.address import Address
from fencepost.brokers.nats.atomic import RECEIPT_BYTES_PER_MESSAGE, RECEIPT_ROOM, take_over
from fencepost.brokers.nats.connection import Connection, connect
from fencepost.brokers.nats.deduplicating import DeduplicatingHandoff
from fencepost.brokers.nats.encode import Encoder
from fencepost.brokers.nats.settings import Settings
from fencepost.brokers.nats.stream import Stream
from fencepost.brokers.nats.subjects import RECEIPTS
from fencepost.errors import GuaranteeUnavailable
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Handoff, Lane, Term


class NatsBroker:
    """See fencepost.ports.Broker."""

    def __init__(self, options: BrokerOptions) -> None:
        """Raises ConfigurationError."""
        self._options = options
        self._settings = Settings.read(options.settings)
        self._address = Address.of(options.url)
        self._encoder = Encoder(options.envelope("ce-"), self._settings.subject_prefix)
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._stream: Stream | None = None
        self._delivery: Delivery | None = None

    async def open(self) -> Capabilities:
        """See Broker. The class of delivery is decided here and stays."""
        stream = await self._found()
        reason = stream.why_not_atomic()
        self._delivery = Delivery.DEDUPLICATING if reason else Delivery.ATOMIC
        names_max = (stream.message_bytes_max - RECEIPT_ROOM) // RECEIPT_BYTES_PER_MESSAGE
        return Capabilities(
            delivery=self._delivery,
            reason=reason,
            batch_max=None if reason else max(1, min(self._settings.batch_max, names_max)),
            message_bytes_max=stream.message_bytes_max,
        )

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker. A stream that is missing is created with the subjects of the receipts and the topics.

        One that is there is not changed: that is for the owner.
        """
        stream = self._stream
        if stream is None or not stream.connection.alive:
            stream = await self._found()
        subjects = [self._encoder.subject(topic) for topic in topics if not self._encoder.fault(topic)]
        async with stream.connection.asking(f"preparing lane {lane.name}"):
            await stream.prepare([*self._receipts(lane), *subjects])

    async def rehearse(self, lane: Lane) -> None:
        """Raise FixError where another stream has a subject that this one would have to take. Changes nothing."""
        stream = await self._found()
        async with stream.connection.asking(f"looking who has the subjects of lane {lane.name}"):
            await stream.rehearse(self._receipts(lane))

    async def take_over(self, lane: Lane, term: Term) -> Handoff:
        """See Broker."""
        if self._delivery is None:
            await self.open()
        stream = await self._found()
        atomic = self._delivery is not Delivery.DEDUPLICATING
        if atomic and (reason := stream.why_not_atomic()):
            raise GuaranteeUnavailable(
                f"exactly-once is no longer possible: {reason}", remedy="undo that, or restart the relay"
            )
        async with stream.connection.asking(f"taking over lane {lane.name}"):
            await stream.update(self._receipts(lane), atomic=atomic)
            if atomic:
                return await take_over(stream, self._encoder, lane, term, self._options.clock)
            return DeduplicatingHandoff(stream, self._encoder, lane)

    async def close(self) -> None:
        """See Broker."""
        connection, self._connection, self._stream = self._connection, None, None
        if connection is not None:
            await connection.close()

    def _receipts(self, lane: Lane) -> list[str]:
        """The receipts of all lanes of this relay; another relay may keep its own in another stream."""
        return [f"{RECEIPTS}.{lane.relay}.*"] if self._delivery is not Delivery.DEDUPLICATING else []

    async def _found(self) -> Stream:
        """The stream as it is now, on a connection that works."""
        async with self._connecting:
            connection = await self._connected()
            stream = Stream(connection, self._settings, self._options.clock, create=self._options.create)
            async with connection.asking(f"looking up the stream {stream.name}"):
                await stream.find()
            self._stream = stream
            return stream

    async def _connected(self) -> Connection:
        if self._connection is not None:
            if self._connection.alive:
                return self._connection
            await self.close()
        self._connection = await connect(self._address, self._settings, self._options.timeout_s)
        return self._connection
