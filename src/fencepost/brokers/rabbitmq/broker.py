"""The broker: a connection for each lane, and one in reserve so that a take-over need not wait for one."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from fencepost.brokers.rabbitmq.address import Address
from fencepost.brokers.rabbitmq.encode import Encoder
from fencepost.brokers.rabbitmq.handoff import RabbitHandoff
from fencepost.brokers.rabbitmq.link import Link, connect
from fencepost.brokers.rabbitmq.settings import Settings
from fencepost.brokers.rabbitmq.suspects import Suspects
from fencepost.brokers.rabbitmq.topology import Topology
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Handoff, Lane, Term

_REASON = "RabbitMQ has no fence, and recognises no repeated message"


class RabbitBroker:
    """See fencepost.ports.Broker."""

    def __init__(self, options: BrokerOptions) -> None:
        """Raises ConfigurationError."""
        self._options = options
        self._settings = Settings.read(options.settings)
        self._address = Address.of(options.url)
        self._envelope = options.envelope(self._settings.header_prefix)
        self._suspects = Suspects(options.clock, self._settings.message_bytes_max)
        self._connecting = asyncio.Lock()
        self._reserve: Link | None = None
        self._handoffs: list[RabbitHandoff] = []

    async def open(self) -> Capabilities:
        """See Broker."""
        await self._ready()
        return Capabilities(delivery=Delivery.PLAIN, reason=_REASON, message_bytes_max=self._suspects.message_bytes_max)

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker. Declares what is missing, where that is allowed, and says nothing of topics that cannot be."""
        link, topology = await self._ready(), self._topology()
        async with link.asking(f"preparing lane {lane.name}"):
            await topology.ensure(link)
            await topology.ensure_topics(link, topics)

    async def rehearse(self, lane: Lane) -> None:
        """Raise FixError where the exchange or a queue is missing and may not be created. Changes nothing."""
        link = await self._ready()
        if not self._options.create:
            async with link.asking(f"looking for what lane {lane.name} needs"):
                await self._topology().ensure(link)

    async def take_over(self, lane: Lane, term: Term) -> Handoff:
        """See Broker. There is nobody to fence: this only makes a connection of the lane's own."""
        was_blocked = any(handoff.link.was_blocked for handoff in self._handoffs)
        link = await self._ready(take=True)
        try:
            if was_blocked:
                await link.probe()
            handoff = await self._begin(lane, link)
        except BaseException:
            await link.close()
            raise
        self._handoffs = [*(h for h in self._handoffs if h.link.alive), handoff]
        return handoff

    async def close(self) -> None:
        """See Broker."""
        reserve, self._reserve = self._reserve, None
        handoffs, self._handoffs = self._handoffs, []
        await asyncio.gather(*(handoff.close() for handoff in handoffs))
        if reserve is not None:
            await reserve.close()

    async def _begin(self, lane: Lane, link: Link) -> RabbitHandoff:
        topology = self._topology()
        async with link.asking(f"taking over lane {lane.name}"):
            await topology.ensure(link)
        suspects = self._suspects
        encoder = Encoder(self._envelope, self._settings, link.frame_bytes_max, lambda: suspects.message_bytes_max)
        return RabbitHandoff(link, encoder, topology, suspects, lane, self._options.clock)

    def _topology(self) -> Topology:
        return Topology(self._settings, create=self._options.create)

    async def _ready(self, *, take: bool = False) -> Link:
        """The connection in reserve; made again where it was lost. ``take`` leaves none in reserve."""
        async with self._connecting:
            link = self._reserve
            if link is not None and not link.alive:
                await link.close()
                link = None
            if link is None:
                link = await connect(self._address, self._settings, self._options.timeout_s)
            self._reserve = None if take else link
            return link
