"""A reader of MQTT: a subscriber to everything, which is there before anything is published, since MQTT keeps nothing.

It reads all the time, in the event loop of whoever makes it: what waits for too long a server may drop.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import MQTT_ERR_SUCCESS, Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from fencepost.clock import SYSTEM_CLOCK
from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen
from fencepost.testing.readers.cloudevents import seen

_TIMEOUT_S = 10.0
_QOS = 1
_TOMBSTONE = ("fencepost-tombstone", "true")
_ATTRIBUTES = {"specversion", "id", "source", "type", "time", "subject", "entityversion", "possiblerepeat"}
_PREFIX = "attribute "
"""Stands before the attributes here, to tell them from the application's own headers: on the wire nothing does."""


class MqttReader:
    """``fencepost.testing.harness.Reader`` says what each call promises. A topic is the MQTT topic of its name."""

    def __init__(self, url: str) -> None:
        """Subscribes, and waits until the server has said so: some milliseconds."""
        parts = urlsplit(url)
        self._seen: dict[str, list[Seen]] = defaultdict(list)
        self._events: set[str] = set()
        self._client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
        if parts.username:
            self._client.username_pw_set(unquote(parts.username), unquote(parts.password or ""))
        self._marks = f"fencepost-reader/{SYSTEM_CLOCK.new_id()}"
        self._client.on_message = self._take
        self._client.on_connect = self._connected
        self._client.on_subscribe = lambda *_: self._events.add("subscribed")
        self._client.connect(parts.hostname or "", parts.port or 1883, keepalive=0)
        sock: Any = self._client.socket()
        self._socket = sock
        while "subscribed" not in self._events:
            if self._client.loop(_TIMEOUT_S) != MQTT_ERR_SUCCESS:
                raise AssertionError("the MQTT server lets no reader subscribe to everything")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._client.loop_read)

    async def read(self, topic: str) -> Sequence[Seen]:
        """What has arrived when a message of our own has, which the server took after all the others."""
        mark = SYSTEM_CLOCK.new_id()
        self._client.publish(self._marks, mark, _QOS)
        async with asyncio.timeout(_TIMEOUT_S):
            while mark not in self._events:
                await SYSTEM_CLOCK.sleep(0.002)
        return list(self._seen[topic])

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(headers={"long": "x" * 65_536})

    async def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._client.disconnect()

    def _connected(self, *_: object) -> None:
        self._client.subscribe("#", _QOS)

    def _take(self, _: Client, __: object, message: MQTTMessage) -> None:
        if message.topic == self._marks:
            self._events.add(message.payload.decode())
        elif not message.topic.startswith("fencepost-reader/"):
            self._seen[message.topic].append(_seen(message))


def _seen(message: MQTTMessage) -> Seen:
    properties: Any = message.properties
    given = list(getattr(properties, "UserProperty", ()))
    gone = _TOMBSTONE in given
    headers = [(_PREFIX + n if n in _ATTRIBUTES else n, v) for n, v in given if (n, v) != _TOMBSTONE]
    if message.qos != _QOS:
        raise AssertionError(f"a message on {message.topic!r} was sent with QoS {message.qos}")
    headers.append(("content-type", getattr(properties, "ContentType", "")))
    return seen(message.topic, None if gone else bytes(message.payload), headers, prefix=_PREFIX)


def reader(options: BrokerOptions) -> MqttReader:
    """The reader of one server."""
    return MqttReader(options.url)
