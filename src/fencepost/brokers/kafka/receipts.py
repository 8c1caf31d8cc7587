"""Reading a lane's receipts: the tail of one partition of a compacted topic.

A receipt's key is "<lane>/<counter % 64>", so compaction keeps the newest 64 of a lane. They stand near the end, where
a scan with ``read_committed`` finds them without reading the rest.
"""

from __future__ import annotations

from threading import Event

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.faults import cause, fault
from fencepost.errors import FixError, RetryError, Unavailable
from fencepost.receipt import RECEIPTS_KEPT, Receipt, Receipts

_TAIL_FIRST = 160
"""Offsets looked at first: each receipt takes two, its own and that of the commit."""
_NO_LEADER_YET = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}
_LOOK_AGAIN_S = 0.05
_PAUSE = Event()
"""Never set: waiting for it is a sleep that does not hold the interpreter."""


def receipt_key(lane: str, counter: int) -> str:
    """The key under which a receipt is kept."""
    return f"{lane}/{counter % RECEIPTS_KEPT}"


def read_receipts(consumer: Consumer, topic: str, partition: int, lane: str, deadline: Deadline) -> Receipts:
    """The newest receipts of the lane, oldest first. Blocks. Records of other lanes are passed over.

    To be called after the fence: nothing of the lane can be added then. Raises FixError where a receipt cannot be read,
    RetryError where not everything up to the end could be.
    """
    place = TopicPartition(topic, partition)
    doing = f"reading receipts from {topic}[{partition}]"
    try:
        low, end = _ends(consumer, place, deadline)
        tail = _TAIL_FIRST
        while True:
            start = max(low, end - tail)
            found = _scan(consumer, TopicPartition(topic, partition, start), lane.encode(), deadline)
            if len(found) >= RECEIPTS_KEPT or start == low:
                return Receipts(sorted(map(_decode, found.values()), key=lambda receipt: receipt.counter))
            tail *= 2
    except KafkaException as exception:
        raise fault(cause(exception), doing) from exception


def _ends(consumer: Consumer, place: TopicPartition, deadline: Deadline) -> tuple[int, int]:
    """Where the partition begins and ends. One that was just made, or has just moved, has no leader for a moment."""
    while True:
        try:
            low, end = consumer.get_watermark_offsets(place, timeout=deadline.left_s())
        except KafkaException as exception:
            if cause(exception).code() not in _NO_LEADER_YET or deadline.over:
                raise
            _PAUSE.wait(_LOOK_AGAIN_S)
            continue
        return low, end


def _scan(consumer: Consumer, start: TopicPartition, lane: bytes, deadline: Deadline) -> dict[bytes, Message]:
    """The newest record of each of the lane's keys, from an offset to the end of the partition."""
    found: dict[bytes, Message] = {}
    end: int | None = None
    trouble: RetryError | None = None
    consumer.assign([start])
    while not deadline.over:
        message = consumer.poll(deadline.left_s(1.0))
        if message is None:
            continue
        error = message.error()
        if error is None:
            _note(message, lane, found)
        elif error.code() != KafkaError._PARTITION_EOF:
            trouble = _passing(error, start) or trouble
            continue
        if error is not None and end is None:
            # Where read_committed ends may be before the end: somebody else's open transaction is in the way.
            high = consumer.get_watermark_offsets(start, cached=True)[1]
            end = high if high >= 0 else None
        if end is not None and _next_offset(message) >= end:
            return found
    raise trouble or Unavailable(
        f"the receipts in {start.topic}[{start.partition}] cannot be read to the end",
        remedy="another producer has an open transaction there: give each relay a receipts_topic of its own",
    )


def _next_offset(message: Message) -> int:
    """Everything before this offset has been seen."""
    offset = message.offset() or 0
    return offset if message.error() is not None else offset + 1


def _note(message: Message, lane: bytes, found: dict[bytes, Message]) -> None:
    key = message.key()
    if key is None or not key.startswith(lane + b"/"):
        return
    if message.value() is None:  # somebody took this receipt back
        found.pop(key, None)
    else:
        found[key] = message


def _decode(message: Message) -> Receipt:
    try:
        return Receipt.decode(message.value() or b"")
    except ValueError as error:
        where = f"{message.topic()}[{message.partition()}] offset {message.offset()}"
        raise FixError(
            f"the record at {where} cannot be read: {error}",
            remedy="without it a published message might be sent again: find out who wrote it, then delete its key",
        ) from error


def _passing(error: KafkaError, place: TopicPartition) -> RetryError | None:
    """An error that may pass while the scan goes on. Raises what does not."""
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return None  # librdkafka looks for the group's coordinator even where no group is joined: no right is needed
    trouble = fault(error, f"reading receipts from {place.topic}[{place.partition}]")
    if isinstance(trouble, RetryError):
        return trouble
    raise trouble
