"""The broker: a connection for each lane, made when the lane is taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from fencepost.brokers.mqtt.address import Address
from fencepost.brokers.mqtt.encode import PREFIX, Encoder
from fencepost.brokers.mqtt.handoff import MqttHandoff
from fencepost.brokers.mqtt.link import Link, connect
from fencepost.brokers.mqtt.settings import Settings
from fencepost.brokers.mqtt.suspects import Suspects
from fencepost.errors import ConfigurationError, ConnectionLost
from fencepost.handoffs import publish_s
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Handoff, Lane, Term

_REASON = "MQTT keeps no receipts, and recognises no repeated message"


class MqttBroker:
    """See fencepost.ports.Broker."""

    def __init__(self, options: BrokerOptions) -> None:
        """Raises ConfigurationError."""
        self._options = options
        self._settings = Settings.read(options.settings)
        self._address = Address.of(options.url)
        if (self._settings.password or self._address.password) and not (self._settings.user or self._address.user):
            raise ConfigurationError("the password for the MQTT server is of no use without a user", remedy="set user")
        self._envelope = options.envelope(PREFIX)
        self._publish_s = publish_s(self._settings.publish_s, options)
        self._suspects = Suspects()
        self._handoffs: list[MqttHandoff] = []
        self._connecting: set[asyncio.Task[Link]] = set()

    async def open(self) -> Capabilities:
        """See Broker. The connection is for this only, under an id that disturbs nobody."""
        link = await self._connect(f"open-{self._options.clock.new_id().replace('-', '')[-12:]}")
        link.close()
        limit = link.terms.packet_bytes_max
        return Capabilities(delivery=Delivery.PLAIN, reason=_REASON, message_bytes_max=limit)

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker. There is nothing to prepare: topics need not be made, and a connection takes the lane over."""

    async def take_over(self, lane: Lane, term: Term) -> Handoff:
        """See Broker. Before the server answers it ends an earlier owner's connection, which had the same client id."""
        link = await self._connect(lane.name)
        encoder = Encoder(self._envelope, self._settings, link.terms.packet_bytes_max)
        clock, publish_s = self._options.clock, self._publish_s
        handoff = MqttHandoff(link, encoder, self._settings, self._suspects, lane, clock, publish_s)
        self._handoffs = [*(h for h in self._handoffs if h.link.alive), handoff]
        return handoff

    async def close(self) -> None:
        """See Broker."""
        for connecting in tuple(self._connecting):
            connecting.cancel()
        handoffs, self._handoffs = self._handoffs, []
        for handoff in handoffs:
            await handoff.close()

    async def _connect(self, lane: str) -> Link:
        client_id = self._settings.client_id.replace("{lane}", lane)
        connecting = asyncio.ensure_future(connect(self._address, self._settings, client_id, self._options.timeout_s))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)
        try:
            await asyncio.wait([connecting])
        except asyncio.CancelledError:
            if not connecting.cancel() and connecting.exception() is None:
                connecting.result().close()
            raise
        if connecting.cancelled():
            raise ConnectionLost(f"connecting to the MQTT server at {self._address} was broken off")
        return connecting.result()
