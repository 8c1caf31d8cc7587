"""A reader of Kafka with ``isolation.level=read_committed``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from fencepost.clock import SYSTEM_CLOCK
from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen
from fencepost.testing.readers.cloudevents import seen

_TIMEOUT_S = 10.0
_POLL_S = 0.1


class KafkaReader:
    """``fencepost.testing.harness.Reader`` says what each call promises."""

    def __init__(self, options: BrokerOptions) -> None:
        servers: dict[str, str | int | float | bool] = {
            "bootstrap.servers": options.url.partition("://")[2].rstrip("/")
        }
        self._admin = AdminClient(servers)
        self._options = {
            **servers,
            "group.id": "fencepost-rules",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }

    async def read(self, topic: str) -> Sequence[Seen]:
        return await asyncio.to_thread(self._read, topic)

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(payload=bytes(2_000_000))

    async def close(self) -> None:
        """Each read has let go of what it used."""

    def _read(self, topic: str) -> list[Seen]:
        consumer = Consumer(self._options)
        try:
            found = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
            if found.error is not None:
                return []
            ends = self._ends([TopicPartition(topic, p) for p in found.partitions])
            consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in ends])
            return [_seen(message) for message in _until(consumer, ends)]
        finally:
            consumer.close()

    def _ends(self, partitions: list[TopicPartition]) -> dict[int, int]:
        """Where each partition ends, whatever is committed."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(
            dict.fromkeys(partitions, latest),
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_TIMEOUT_S,
        )
        return {partition.partition: future.result().offset for partition, future in asked.items()}


def _until(consumer: Consumer, ends: dict[int, int]) -> list[Message]:
    """Read to the ends. A committed transaction is seen a moment later; one that stays open ends the wait at last."""
    missing = {partition: end for partition, end in ends.items() if end > 0}
    messages = []
    started = SYSTEM_CLOCK.monotonic()
    while missing and SYSTEM_CLOCK.monotonic() - started < _TIMEOUT_S:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() != KafkaError._PARTITION_EOF:
            raise AssertionError(f"Kafka cannot be read: {error}")
        elif (message.offset() or 0) >= missing.get(message.partition() or 0, 0):
            missing.pop(message.partition() or 0, None)
    return messages


def _seen(message: Message) -> Seen:
    given = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    headers = [(name, (value or b"").decode()) for name, value in given]
    arrived = seen(message.topic() or "", message.value(), headers, prefix="ce_")
    key = _text(message.key())
    if arrived.attributes.get("subject") != key:
        raise AssertionError(f"the key {key!r} is not the subject {arrived.attributes.get('subject')!r}")
    return arrived


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def reader(options: BrokerOptions) -> KafkaReader:
    """The reader of one cluster."""
    return KafkaReader(options)
