"""The demonstration's topic at SQS or SNS: a reader of its queue that is there all the time and keeps what it takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from fencepost.aws.address import Server, Sns, Sqs, server_of
from fencepost.aws.client import Client
from fencepost.aws.publishing.encode import HEADERS, PREFIX
from fencepost.aws.publishing.names import Names
from fencepost.aws.publishing.settings import Settings
from fencepost.brokers.sns.settings import Settings as SnsSettings
from fencepost.brokers.sqs.settings import Settings as SqsSettings
from fencepost.clock import Clock
from fencepost.demo.readers import OnEntry, Taken, beside, entry
from fencepost.errors import FencepostError
from fencepost.history import Entry
from fencepost.ports import BrokerOptions

_PAGE = 10
_ANSWER_S = 10.0
_POLL_S = 0.05
_EMPTY = 3
"""So many empty answers in a row: the queue is empty."""


class AwsStage:
    """See Stage."""

    def __init__(self, options: BrokerOptions, service: str, topic: str, clock: Clock) -> None:
        """The options are read as the relay reads them."""
        server: Server
        settings: Settings
        if service == "sns":
            server, settings = server_of(Sns, options.url), SnsSettings.read(options.settings)
            self._sns: Client | None = Client(server, _ANSWER_S, clock)
        else:
            server, settings = server_of(Sqs, options.url), SqsSettings.read(options.settings)
            self._sns = None
        self._sqs = Client(Sqs(server.region, server.endpoint), _ANSWER_S, clock)
        self._name, self._fifo, self._clock = Names(settings).of(topic), settings.fifo, clock
        self._taken, self._known = Taken(), set[str]()
        self._queue = self._topic = ""
        self._taking = asyncio.Lock()

    @property
    def settings(self) -> Mapping[str, object]:
        """See Stage."""
        return {}

    async def create(self) -> None:
        """See Stage: make the queue; subscribe it to the topic, where there is one."""
        await self._sqs.open()
        queue = {"FifoQueue": "true"} if self._fifo else {}
        made = await self._sqs.call("create_queue", QueueName=self._name, Attributes=queue)
        self._queue = made["QueueUrl"]
        if self._sns is None:
            return
        await self._sns.open()
        topic = {"FifoTopic": "true"} if self._fifo else {}
        self._topic = (await self._sns.call("create_topic", Name=self._name, Attributes=topic))["TopicArn"]
        asked = await self._sqs.call("get_queue_attributes", QueueUrl=self._queue, AttributeNames=["QueueArn"])
        place = {"Protocol": "sqs", "Endpoint": asked["Attributes"]["QueueArn"]}
        await self._sns.call("subscribe", TopicArn=self._topic, Attributes={"RawMessageDelivery": "true"}, **place)

    @asynccontextmanager
    async def following(self, on_entry: OnEntry) -> AsyncIterator[None]:
        """See Stage."""
        with self._taken.following(on_entry):
            async with beside(self._follow()):
                yield

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """See Stage."""
        empty = 0
        while empty < _EMPTY:
            empty = 0 if await self._take() else empty + 1
        return self._taken.partitions()

    async def drop(self) -> None:
        """See Stage."""
        with suppress(FencepostError):  # the demonstration has said what it had to say
            if self._topic and self._sns is not None:
                await self._sns.call("delete_topic", TopicArn=self._topic)
            if self._queue:
                await self._sqs.call("delete_queue", QueueUrl=self._queue)
        await self._sqs.close()
        if self._sns is not None:
            await self._sns.close()

    async def _follow(self) -> None:
        while True:
            with suppress(FencepostError):  # only what is shown while it runs; the end is read without this
                if await self._take():
                    continue
            await self._clock.sleep(_POLL_S)

    async def _take(self) -> int:
        """Take some messages; how many. One that could not be deleted comes again and is known by its number."""
        async with self._taking:
            ask = {"MaxNumberOfMessages": _PAGE, "MessageAttributeNames": ["All"], "WaitTimeSeconds": 0}
            page = (await self._sqs.call("receive_message", QueueUrl=self._queue, **ask)).get("Messages") or []
            for message in page:
                self._keep(message)
            if page:
                done = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(page)]
                await self._sqs.call("delete_message_batch", QueueUrl=self._queue, Entries=done)
            return len(page)

    def _keep(self, message: Mapping[str, Any]) -> None:
        if message["MessageId"] not in self._known:
            self._known.add(message["MessageId"])
            self._taken.add(entry(_headers(message), PREFIX))


def _headers(message: Mapping[str, Any]) -> Mapping[str, str]:
    """The attributes of CloudEvents with their prefix, whatever the mode is."""
    attributes = {name: str(value["StringValue"]) for name, value in message.get("MessageAttributes", {}).items()}
    if attributes.get("content-type", "").startswith("application/cloudevents+json"):
        event = json.loads(message["Body"])
        return {f"{PREFIX}{name}": str(value) for name, value in event.items()}
    found: dict[str, str] = attributes | json.loads(attributes.get(HEADERS, "{}"))
    return found
