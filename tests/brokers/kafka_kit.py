"""What the tests of the Kafka broker share: lanes, messages, and readers of their own."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from fencepost.brokers.kafka import broker
from fencepost.message import Stored, microseconds
from fencepost.ports import Broker, BrokerOptions, Handoff, Lane, Term

START = datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=UTC)


Settings = Mapping[str, object]
NONE: Settings = {}
_SEEN_S = 1.0
"""How long after an acknowledged commit its records may take to be seen."""


def options(url: str, settings: Settings = NONE, *, create: bool = True, timeout_s: float = 20.0) -> BrokerOptions:
    return BrokerOptions(url=url, source="/orders", create=create, timeout_s=timeout_s, settings=settings)


def message(number: int, topic: str, *, key: str | None = "key", payload: bytes | None = b"{}") -> Stored:
    """The message at position ``number``: everything else of it follows from the number."""
    id_ = f"0197c2b0-1111-7000-8000-{number:012d}"
    version = None if key is None else number + 1
    at = START + timedelta(milliseconds=number)
    return Stored(
        number, id_, topic, key, version, "order.created", payload, "application/json", None, microseconds(at)
    )


def messages(count: int, topic: str, *, first: int = 0) -> list[Stored]:
    return [message(n, topic, key=f"key-{n % 7}", payload=b"payload %d" % n) for n in range(first, first + count)]


@asynccontextmanager
async def opened(url: str, settings: Settings = NONE, *, create: bool = True) -> AsyncIterator[Broker]:
    opened_broker = broker(options(url, settings, create=create))
    await opened_broker.open()
    try:
        yield opened_broker
    finally:
        await opened_broker.close()


@asynccontextmanager
async def owning(kafka: Broker, lane: Lane, owner: str = "owner:1", token: int = 1) -> AsyncIterator[Handoff]:
    handoff = await kafka.take_over(lane, Term(lane.name, owner, token))
    try:
        yield handoff
    finally:
        await handoff.close()


def read(url: str, topic: str, *, committed: bool = True, seconds: float = 10.0) -> list[Message]:
    """Everything in a topic, by partition and offset, that a reader of that isolation can see now.

    A commit is acknowledged a moment before its records can be seen: what is written and not seen is waited for.
    """
    consumer = _reader(url, "read_committed" if committed else "read_uncommitted")
    partitions = list(consumer.list_topics(topic, timeout=seconds).topics[topic].partitions)
    assert partitions, f"there is no topic {topic}"
    written = _written(url, topic, partitions, seconds)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Message] = []
    seen: dict[int | None, int] = {}
    seen_all: float | None = None
    while seen_all is None or (any(seen[p] < written[p] for p in partitions) and time.monotonic() < seen_all + _SEEN_S):
        record = consumer.poll(seconds if seen_all is None else 0.05)
        if record is None:
            assert seen_all is not None, f"no answer from {topic}"
            continue
        error = record.error()
        if error is None:
            found.append(record)
            continue
        assert error.code() == KafkaError._PARTITION_EOF, error
        seen[record.partition()] = record.offset() or 0
        if seen_all is None and len(seen) == len(partitions):
            seen_all = time.monotonic()
    consumer.close()
    return sorted(found, key=lambda record: (record.partition() or 0, record.offset() or 0))


def _written(url: str, topic: str, partitions: Sequence[int], seconds: float) -> dict[int, int]:
    """Where each partition ends, open transactions included."""
    reader, ends = _reader(url, "read_uncommitted"), {}
    for partition in partitions:
        found = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=seconds)
        assert found, f"no answer from {topic}"
        ends[partition] = found[1]
    reader.close()
    return ends


def _reader(url: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": url.removeprefix("kafka://"),
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )


def ids(records: Sequence[Message]) -> list[str]:
    """The message ids, in the order of the records."""
    return [headers(record)["ce_id"] for record in records]


def headers(record: Message) -> dict[str, str]:
    pairs = record.headers()
    assert pairs is not None
    assert isinstance(pairs, list)
    return {name: (value if isinstance(value, str) else (value or b"").decode()) for name, value in pairs}
