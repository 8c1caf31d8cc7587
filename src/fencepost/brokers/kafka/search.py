"""Which messages of a refused transaction are to blame.

What Kafka refuses is all that was sent to a partition in one piece; it does not say which message it means. So they are
sent again in ever smaller parts, in transactions that are aborted in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, Producer

from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.faults import OF_A_MESSAGE, OF_A_SEQUENCE, PRODUCER_ERRORS, cause, fault
from fencepost.brokers.kafka.pair import Pair
from fencepost.errors import DeadlineExceeded
from fencepost.message import Stored
from fencepost.ports import Failure

_SEARCH_S = 15.0
"""What was found until then is set aside; what is left shows itself the next time."""
_REPEATS = 2


class Search:
    """One search. ``send`` gives messages to a producer, ``refuse`` says what becomes of one that is not taken. Both
    methods raise what is not about messages.
    """

    def __init__(
        self,
        pair: Pair,
        send: Callable[[Producer, Sequence[Stored], Deadline], object],
        refuse: Callable[[Stored, KafkaError, Deadline], Failure],
        deadline: Deadline,
    ) -> None:
        self._pair, self._send, self._refuse, self._deadline = pair, send, refuse, deadline
        self._until = deadline.sooner(_SEARCH_S)

    def among(self, suspects: Sequence[Stored]) -> list[Failure]:
        """Those that Kafka does not take, topic by topic, each found by halves, as far as time allows."""
        found: list[Failure] = []
        for topic in dict.fromkeys(message.topic for message in suspects):
            found += self._halve([message for message in suspects if message.topic == topic])
        return found or self._nothing()

    def largest(self, suspects: Sequence[Stored]) -> list[Failure]:
        """Those that are too large when sent alone: the largest first, until one is taken."""
        found: list[Failure] = []
        for topic in dict.fromkeys(message.topic for message in suspects):
            for message in sorted([m for m in suspects if m.topic == topic], key=_size, reverse=True):
                error = None if self._until.over else self._try([message])
                if error is None:
                    break
                found.append(self._refuse(message, error, self._deadline))
        return found or self._nothing()

    def _nothing(self) -> list[Failure]:
        if self._until.over:
            raise DeadlineExceeded("Kafka refuses some messages, and which ones was not found in time")
        return []

    def _halve(self, messages: Sequence[Stored]) -> list[Failure]:
        error = None if self._until.over else self._try(messages)
        if error is None:
            return []
        if len(messages) == 1:
            return [self._refuse(messages[0], error, self._deadline)]
        middle = len(messages) // 2
        return self._halve(messages[:middle]) + self._halve(messages[middle:])

    def _try(self, messages: Sequence[Stored]) -> KafkaError | None:
        """The error where Kafka does not take all of the messages."""
        error = self._aborted(messages)
        for _ in range(_REPEATS):
            if error is None or error.code() not in OF_A_SEQUENCE:
                break
            error = self._aborted(messages)
        if error is not None and error.code() not in OF_A_MESSAGE:
            raise fault(error, "searching the messages that it refuses")
        return error

    def _aborted(self, messages: Sequence[Stored]) -> KafkaError | None:
        """Send messages in a transaction that is aborted; what was said of them."""
        producer = self._pair.begin()
        error: KafkaError | None = None
        unanswered = 0
        try:
            self._send(producer, messages, self._deadline)
            unanswered = producer.flush(self._deadline.left_s())
        except PRODUCER_ERRORS as exception:
            error = cause(exception)
        if error is not None or self._pair.reports:
            error = self._pair.why(error or next(iter(self._pair.reports.values())))
        self._pair.abort(self._deadline)
        if error is None and unanswered:
            raise DeadlineExceeded("Kafka gave no answer while the messages that it refuses were searched")
        return next((e for (_, code), e in self._pair.reports.items() if code in OF_A_MESSAGE), error)


def _size(message: Stored) -> int:
    return len(message.payload or b"")
