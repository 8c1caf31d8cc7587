"""The demonstration's topic on Kafka: three partitions, read by consumers that see committed messages only."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import asynccontextmanager
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from fencepost.brokers.kafka.faults import cause, fault
from fencepost.brokers.kafka.settings import parse
from fencepost.demo.readers import OnEntry, cancelled, entry
from fencepost.errors import Unavailable
from fencepost.history import Entry
from fencepost.ports import BrokerOptions

PARTITIONS = 3
_ANSWER_S = 20.0
_POLL_S = 0.2
_AT_ONCE = 500

# The client library writes lines of its own to standard error otherwise.
_LOGGER = logging.getLogger("fencepost.demo.kafka")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False


class KafkaStage:
    """See Stage."""

    def __init__(self, options: BrokerOptions, topic: str) -> None:
        """The options are read as the relay reads them: how to log in, which certificates to trust."""
        self._topic, self._receipts = topic, f"{topic}-receipts"
        own = parse(options)
        self._client: dict[str, Any] = {
            "socket.timeout.ms": 10_000,
            **own.shared,
            "bootstrap.servers": own.servers,
            "logger": _LOGGER,
        }
        self._replicas = own.replication_factor

    @property
    def settings(self) -> Mapping[str, object]:
        """See Stage. The receipts have a topic of this demonstration's own, so that it can be removed."""
        return {"receipts_topic": self._receipts}

    async def create(self) -> None:
        """See Stage."""
        await asyncio.to_thread(self._create)

    def _create(self) -> None:
        admin = AdminClient(self._client)
        topic = NewTopic(self._topic, num_partitions=PARTITIONS, replication_factor=self._replicas)
        try:
            admin.create_topics([topic], request_timeout=_ANSWER_S)[self._topic].result(_ANSWER_S)
        except KafkaException as error:
            raise fault(cause(error), f"making the topic {self._topic}") from error
        except TimeoutError as error:
            raise Unavailable(f"Kafka does not make the topic {self._topic} within {_ANSWER_S:g} s") from error

    @asynccontextmanager
    async def following(self, on_entry: OnEntry) -> AsyncIterator[None]:
        """See Stage."""
        consumer, stop = self._consumer(), threading.Event()
        task = asyncio.create_task(self._follow(consumer, on_entry, stop))
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait([task], timeout=5 * _POLL_S)
            await cancelled(task)
            await asyncio.to_thread(consumer.close)

    async def _follow(self, consumer: Consumer, on_entry: OnEntry, stop: threading.Event) -> None:
        while not stop.is_set():
            for message in await asyncio.to_thread(_some, consumer):
                if message.error() is None:
                    on_entry(_entry(message))

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """See Stage."""
        return await asyncio.to_thread(self._read_back)

    def _read_back(self) -> Sequence[Sequence[Entry]]:
        consumer = self._consumer()
        found: list[list[Entry]] = [[] for _ in range(PARTITIONS)]
        open_partitions = set(range(PARTITIONS))
        try:
            while open_partitions:
                for message in _some(consumer):
                    partition, error = message.partition() or 0, message.error()
                    if error is None:
                        found[partition].append(_entry(message))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        open_partitions.discard(partition)
                    else:
                        raise Unavailable(f"the topic {self._topic} cannot be read back: {error.str()}")
        finally:
            consumer.close()
        return found

    def _consumer(self) -> Consumer:
        consumer = Consumer(
            {
                **self._client,
                "group.id": f"{self._topic}-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        consumer.assign([TopicPartition(self._topic, n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
        return consumer

    async def drop(self) -> None:
        """See Stage."""
        await asyncio.to_thread(self._drop)

    def _drop(self) -> None:
        admin = AdminClient(self._client)
        futures = admin.delete_topics([self._topic, self._receipts], request_timeout=_ANSWER_S)
        wait(futures.values(), timeout=_ANSWER_S)  # what cannot be removed stays: the demonstration has its result


def _some(consumer: Consumer) -> list[Message]:
    """What there is now, at least one where one comes in time."""
    first = consumer.poll(_POLL_S)
    return [] if first is None else [first, *consumer.consume(_AT_ONCE, 0.0)]


def _entry(message: Message) -> Entry:
    headers = {
        name: value.decode() for name, value in dict(message.headers() or ()).items() if isinstance(value, bytes)
    }
    return entry(headers, "ce_")
