"""A reader of SNS: a queue for each topic, subscribed before anything is published, since SNS keeps nothing."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence

from botocore.exceptions import ClientError

from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen
from fencepost.testing.readers.sqs import client, name_of, seen_in, taken


class SnsReader:
    """``fencepost.testing.harness.Reader`` says what each call promises."""

    def __init__(self, options: BrokerOptions) -> None:
        self._settings = options.settings
        self._fifo = bool(options.settings.get("fifo", True))
        self._sns, self._sqs = client("sns", options.url), client("sqs", options.url)
        self._wait_s = 0 if "endpoint=" in options.url else 2
        self._queues: dict[str, tuple[str, str] | None] = {}
        self._seen: dict[str, list[Seen]] = {}

    def expect(self, topic: str) -> None:
        """Subscribe to a topic, which is made where it is missing; nothing where SNS cannot have it."""
        if topic not in self._queues:
            try:
                self._queues[topic] = self._subscribed(name_of(topic, self._settings))
            except ClientError:
                self._queues[topic] = None

    async def read(self, topic: str) -> Sequence[Seen]:
        found, place = self._seen.setdefault(topic, []), self._queues.get(topic)
        if place is not None:
            found += [
                seen_in(topic, message) for message in await asyncio.to_thread(taken, self._sqs, place[1], self._wait_s)
            ]
        return list(found)

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(payload=bytes(1_100_000))

    async def close(self) -> None:
        """What was made is removed."""
        await asyncio.to_thread(self._remove)

    def _subscribed(self, name: str) -> tuple[str, str]:
        """A topic and a queue of this name: the topic's ARN and the queue's URL."""
        topic = self._sns.create_topic(Name=name, Attributes={"FifoTopic": "true"} if self._fifo else {})["TopicArn"]
        short = f"reader-{zlib.crc32(name.encode()):08x}-{name[-60:]}"  # names of queues are shorter
        made = self._sqs.create_queue(QueueName=short, Attributes={"FifoQueue": "true"} if self._fifo else {})
        queue = made["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        raw = {"RawMessageDelivery": "true"}
        self._sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=raw)
        return topic, queue

    def _remove(self) -> None:
        for place in self._queues.values():
            if place is not None:
                self._sns.delete_topic(TopicArn=place[0])
                self._sqs.delete_queue(QueueUrl=place[1])
        self._sns.close()
        self._sqs.close()


def reader(options: BrokerOptions) -> SnsReader:
    """The reader of one region, or one server, that has SQS too."""
    return SnsReader(options)
