"""A reader of RabbitMQ. It takes messages from the queue of a topic as a consumer does, and keeps what it has read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import aiormq
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelNotFoundEntity

from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen
from fencepost.testing.readers.cloudevents import seen

_TIMEOUT_S = 10.0
_TOMBSTONE = "fencepost-tombstone"
_OF_THE_QUEUE = "x-delivery-count"
"""A header that quorum queues add."""


class RabbitReader:
    """``fencepost.testing.harness.Reader`` says what each call promises. A topic is the queue of its name."""

    def __init__(self, options: BrokerOptions) -> None:
        self._url = options.url
        self._connection: Any = None
        self._seen: dict[str, list[Seen]] = {}

    async def read(self, topic: str) -> Sequence[Seen]:
        found = self._seen.setdefault(topic, [])
        if self._connection is None:
            self._connection = await aiormq.connect(self._url)
        channel = await self._connection.channel()
        try:
            while count := (await channel.queue_declare(topic, passive=True)).message_count:
                found += [_seen(topic, message) for message in await _take(channel, topic, count)]
        except ChannelNotFoundEntity:
            return []
        await channel.close()
        return list(found)

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(payload=bytes(16_777_217))

    async def close(self) -> None:
        """The queues that were read are removed: a server feels each of them."""
        if self._connection is not None:
            channel = await self._connection.channel()
            for topic in self._seen:
                await channel.queue_delete(topic)
            await self._connection.close()


async def _take(channel: Any, queue: str, count: int) -> list[DeliveredMessage]:
    """Take so many messages: a consumer that is given no more than these, and acknowledges them together."""
    messages: list[DeliveredMessage] = []
    enough = asyncio.Event()

    async def keep(message: DeliveredMessage) -> None:
        messages.append(message)
        if len(messages) == count:
            enough.set()

    await channel.basic_qos(prefetch_count=min(count, 65_535))
    consumer = await channel.basic_consume(queue, keep)
    async with asyncio.timeout(_TIMEOUT_S):
        await enough.wait()
    await channel.basic_cancel(consumer.consumer_tag)
    await channel.basic_ack(messages[-1].delivery_tag, multiple=True)
    return messages


def _seen(topic: str, message: DeliveredMessage) -> Seen:
    properties = message.header.properties
    headers = {name: str(value) for name, value in (properties.headers or {}).items() if name != _OF_THE_QUEUE}
    gone = headers.pop(_TOMBSTONE, "") == "true"
    if properties.delivery_mode != 2:
        raise AssertionError(f"a message on {topic!r} would not survive a restart")
    if (given := headers.get("cloudEvents:id")) != properties.message_id:
        raise AssertionError(f"the message id {properties.message_id!r} is not that of the event, {given!r}")
    own = [*headers.items(), ("content-type", properties.content_type or "")]
    return seen(topic, None if gone else message.body, own, prefix="cloudEvents:")


def reader(options: BrokerOptions) -> RabbitReader:
    """The reader of one server."""
    return RabbitReader(options)
