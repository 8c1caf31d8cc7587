"""A publisher whose messages are encoded first, all of a batch in the worker's thread.

Encoding takes some ten times as long as handing a message to the producer, so the loop has no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.encoding.encoders import Encoders
from fencepost.brokers.kafka.publisher import Publisher
from fencepost.message import Stored
from fencepost.ports import Failure
from fencepost.receipt import Receipt


class EncodingPublisher:
    """Publishes what ``encoders`` make of a batch. Used as a Publisher is."""

    def __init__(self, publisher: Publisher, encoders: Encoders) -> None:
        self._publisher, self._encoders = publisher, encoders

    def begin(self, batch: Sequence[Stored], receipt: Receipt) -> bool:
        """See Publisher. False where something is to be encoded."""
        topics = {message.topic for message in batch}
        return not any(map(self._encoders.encodes, topics)) and self._publisher.begin(batch, receipt)

    def feed(self, messages: Sequence[Stored]) -> bool:
        """See Publisher."""
        return self._publisher.feed(messages)

    def publish(self, batch: Sequence[Stored], receipt: Receipt, deadline: Deadline) -> list[Failure]:
        """See Publisher. The failures name messages as they came. The time of encoding is not counted."""
        encoded, failures = self._encoders.encode(batch)
        if failures:
            return failures
        own = {message.position: message for message in batch}
        failures = self._publisher.publish(encoded, receipt, deadline.again())
        return [replace(failure, message=own[failure.message.position]) for failure in failures]

    def stop(self) -> None:
        """See Publisher."""
        self._publisher.stop()

    def close(self) -> None:
        """See Publisher."""
        self._publisher.close()
