"""The demonstration's topic on MQTT: a subscriber that is there from the beginning and keeps what it gets.

Its session outlasts its connection: what is published while it is away it gets afterwards. The client library reads in
a thread of its own, and connects again by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from fencepost.brokers.mqtt.address import Address, tls_context
from fencepost.brokers.mqtt.settings import Settings
from fencepost.clock import Clock
from fencepost.demo.readers import OnEntry, Taken, entry
from fencepost.errors import Unavailable
from fencepost.history import Entry
from fencepost.ports import BrokerOptions

_QOS = 1
_ANSWER_S = 20.0
_SESSION_S = 3600


class MqttStage:
    """See Stage."""

    def __init__(self, options: BrokerOptions, topic: str, clock: Clock) -> None:
        """The options are read as the relay reads them: how to log in, which certificates to trust."""
        own, address = Settings.read(options.settings), Address.of(options.url)
        self._address, self._keepalive_s, self._topic, self._clock = address, own.keepalive_s, topic, clock
        self._taken = Taken()
        self._marks: set[str] = set()
        self._subscribed, self._loop = False, asyncio.get_running_loop()
        self._client = Client(CallbackAPIVersion.VERSION2, f"{topic}-reader", protocol=MQTTv5)
        if own.user or address.user:
            self._client.username_pw_set(own.user or address.user, own.password or address.password or None)
        if (tls := tls_context(address, own)) is not None:
            self._client.tls_set_context(tls)
        self._client.on_connect = self._connected
        self._client.on_subscribe = self._ready
        self._client.on_message = self._arrived

    @property
    def settings(self) -> Mapping[str, object]:
        """See Stage."""
        return {}

    async def create(self) -> None:
        """See Stage: subscribe."""
        session: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        session.SessionExpiryInterval = _SESSION_S
        host, port = self._address.servers[0]
        try:
            await asyncio.to_thread(self._client.connect, host, port, self._keepalive_s, properties=session)
            self._client.loop_start()
            async with asyncio.timeout(_ANSWER_S):
                while not self._subscribed:
                    await self._clock.sleep(0.01)
        except (OSError, TimeoutError) as error:
            raise Unavailable(
                f"the MQTT server cannot be reached, or lets nobody subscribe: {str(error) or 'no answer'}",
                remedy="check --broker, or [broker] of the file that --config names",
            ) from error

    @asynccontextmanager
    async def following(self, on_entry: OnEntry) -> AsyncIterator[None]:
        """See Stage."""
        with self._taken.following(on_entry):
            yield

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """See Stage: all that the server took before a mark of ours."""
        mark = self._clock.new_id()
        self._client.publish(f"{self._topic}/marks", mark, _QOS)
        try:
            async with asyncio.timeout(_ANSWER_S):
                while mark not in self._marks:
                    await self._clock.sleep(0.01)
        except TimeoutError as error:
            raise Unavailable("the MQTT server does not hand out what it took") from error
        return self._taken.partitions()

    async def drop(self) -> None:
        """See Stage."""
        self._client.disconnect()
        await asyncio.to_thread(self._client.loop_stop)

    def _take(self, message: MQTTMessage) -> None:
        if message.topic != self._topic:
            self._marks.add(message.payload.decode())
        else:
            self._taken.add(entry(dict(getattr(message.properties, "UserProperty", ())), ""))

    # -- called in the library's thread --------------------------------------------------------------------------------

    def _connected(self, *_: object) -> None:
        self._client.subscribe(f"{self._topic}/#", _QOS)  # "#" is the topic itself, too

    def _ready(self, *_: object) -> None:
        self._subscribed = True

    def _arrived(self, _: Client, __: object, message: MQTTMessage) -> None:
        self._loop.call_soon_threadsafe(self._take, message)
