"""Publishing batches: what a handoff asks of its two producers. ``publish`` blocks and runs in a worker thread.

A batch goes as one transaction. Where Kafka refuses it because of some messages, it is aborted and these are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaError, Producer

from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.faults import (
    ABOUT_MESSAGES,
    OF_A_MESSAGE,
    OF_A_SEQUENCE,
    OF_A_TOPIC,
    PRODUCER_ERRORS,
    TOO_LARGE,
    cause,
    fault,
    not_taken,
)
from fencepost.brokers.kafka.pair import MustAbort, Pair
from fencepost.brokers.kafka.receipts import receipt_key
from fencepost.brokers.kafka.search import Search
from fencepost.brokers.kafka.settings import RECEIPTS_PREFIX
from fencepost.brokers.kafka.topics import Topics
from fencepost.envelope import Envelope
from fencepost.errors import ConfigurationError, DeadlineExceeded, ParkError, Unavailable
from fencepost.message import Stored
from fencepost.ports import Failure, Lane
from fencepost.receipt import Receipt

_ROOM_S = 0.005
_AMONG_RECEIPTS = "the topic {} holds the receipts of a relay: no message may stand there"
_REPEATS = 2
_DELIVERED_S = 3.0
"""librdkafka waits for a topic that does not exist, and cannot be stopped once it commits: so it is asked before."""


class BatchLimit:
    """How much is sent in one piece, in bytes; None leaves it to librdkafka. Shared by all lanes of a broker.

    A topic's max.message.bytes counts for what is sent in one piece, so where it is small, pieces must be too.
    """

    _FIRST, _LEAST = 256_000, 16_000

    def __init__(self) -> None:
        self.bytes: int | None = None

    def shrink(self) -> bool:
        """Make it smaller. False where that is over."""
        if self.bytes == self._LEAST:
            return False
        self.bytes = self._FIRST if self.bytes is None else max(self.bytes // 4, self._LEAST)
        return True


class Publisher:
    """Publishes on one lane. ``receipts_topic`` is where the receipts go, into the partition of the lane's index."""

    def __init__(
        self, lane: Lane, receipts_topic: str, pair: Pair, topics: Topics, envelope: Envelope, limit: BatchLimit
    ) -> None:
        self._lane, self._receipts_topic = lane, receipts_topic
        self._pair, self._topics, self._envelope, self._limit = pair, topics, envelope, limit
        self._size_limits: dict[str, str] = {}
        # What the producer has taken of the open transaction.
        self._fed = 0
        self._receipt_fed = False

    def begin(self, batch: Sequence[Stored], receipt: Receipt) -> bool:
        """Begin what ``publish`` ends, without blocking. False where something is in the way."""
        topics = {message.topic for message in batch}
        if self._topics.unknown(topics) or any(self._holds_receipts(topic) for topic in topics):
            return False
        producer = self._begin()
        return self._taken(lambda: self._produce_receipt(producer, receipt))

    def feed(self, messages: Sequence[Stored]) -> bool:
        """Give the producer the next messages of the batch that was begun, without blocking. False: it took not all.

        Whatever keeps it from taking more, ``publish`` meets it again, and may wait or tell.
        """
        producer = self._pair.open
        return producer is not None and self._taken(lambda: self._produce(producer, messages))

    def publish(self, batch: Sequence[Stored], receipt: Receipt, deadline: Deadline) -> list[Failure]:
        """Publish a batch with its receipt. Where the answer is not empty nothing was published, and these are why.

        Raises Fenced, RetryError or FixError; then this publisher is of no use any more.
        """
        if self._pair.open is None and (unusable := self._unusable(batch, deadline)):
            return unusable
        self._size_limits.clear()
        refused, error = self._attempt(batch, receipt, deadline)
        for _ in range(_REPEATS):
            if error is None or error.code() not in OF_A_SEQUENCE or self._reports():
                break
            refused, error = self._attempt(batch, receipt, deadline)
        return refused if error is None else self._explain(batch, error, deadline)

    def _attempt(
        self, batch: Sequence[Stored], receipt: Receipt, deadline: Deadline
    ) -> tuple[list[Failure], KafkaError | None]:
        """One transaction, perhaps begun. It was committed (nothing and None), or aborted because of messages or an
        error.
        """
        producer = self._pair.open or self._begin()
        error: KafkaError | None = None
        refused: list[Failure] = []
        try:
            refused = self._send(producer, batch[self._fed :], deadline)
            if not refused and not self._receipt_fed:
                self._send_receipt(producer, receipt, deadline)
            if not refused:
                refused = self._overdue(producer, batch, deadline)
            if not refused:
                self._pair.commit(deadline)
                return [], None
        except MustAbort as refusal:
            error = refusal.error
        except PRODUCER_ERRORS as exception:
            error = self._pair.why(cause(exception))
        if error is not None and error.code() in OF_A_TOPIC:  # after this, not every abort succeeds
            self._forget_topics(batch)
        self._pair.abort(deadline)
        return refused, error

    def stop(self) -> None:
        """End what is being published soon, without a commit where that can be. May be called from any thread."""
        self._pair.stopping.set()

    def close(self) -> None:
        """Abort what is open, where the broker answers soon, and let the connections go. Never raises."""
        self._pair.close()

    # -- sending -------------------------------------------------------------------------------------------------------

    def _begin(self) -> Producer:
        self._fed, self._receipt_fed = 0, False
        return self._pair.begin()

    def _taken(self, produce: Callable[[], None]) -> bool:
        if self._pair.stopping.is_set():
            return False
        try:
            produce()
        except (BufferError, TypeError, ValueError, *PRODUCER_ERRORS):
            return False
        return True

    def _produce(self, producer: Producer, messages: Sequence[Stored]) -> None:
        produce: Callable[..., None] = producer.produce
        headers, body = self._envelope.headers, self._envelope.body
        for message in messages:
            produce(message.topic, body(message), message.key, headers=headers(message))
            self._fed += 1

    def _produce_receipt(self, producer: Producer, receipt: Receipt) -> None:
        key, value = receipt_key(self._lane.name, receipt.counter), receipt.encode()
        producer.produce(self._receipts_topic, value, key, self._lane.index)
        self._receipt_fed = True

    def _send(self, producer: Producer, batch: Sequence[Stored], deadline: Deadline) -> list[Failure]:
        """Give all messages to the producer. The answer: those that it does not take."""
        refused: list[Failure] = []
        for message in batch:
            try:
                try:
                    self._produce(producer, [message])
                except BufferError:
                    self._make_room(producer, deadline)
                    self._produce(producer, [message])
            except PRODUCER_ERRORS as exception:
                error = cause(exception)
                if error.code() not in ABOUT_MESSAGES:
                    raise
                refused.append(self._refuse(message, error, deadline))
            except (BufferError, TypeError, ValueError) as unfit:  # larger than the whole queue, or not encodable
                why = ParkError(
                    f"the message cannot be sent to Kafka: {unfit}", at_once=not isinstance(unfit, BufferError)
                )
                refused.append(Failure(message, why))
        return refused

    def _refuse(self, message: Stored, error: KafkaError, deadline: Deadline) -> Failure:
        """A message that is set aside. The topic's limit is asked for once, not for each message that exceeds it."""
        remedy = ""
        if error.code() in TOO_LARGE:
            remedy = self._size_limits.get(message.topic) or self._topics.size_limits(message.topic, deadline)
            self._size_limits[message.topic] = remedy
        return Failure(message, not_taken(error, remedy))

    def _send_receipt(self, producer: Producer, receipt: Receipt, deadline: Deadline) -> None:
        try:
            try:
                self._produce_receipt(producer, receipt)
            except BufferError:
                self._make_room(producer, deadline)
                self._produce_receipt(producer, receipt)
        except (BufferError, *PRODUCER_ERRORS) as exception:
            if not isinstance(exception, BufferError) and cause(exception).code() not in TOO_LARGE:
                raise
            raise ConfigurationError(
                f"the receipt of {len(receipt.positions):,} messages is too large for Kafka",
                remedy="make batches smaller, or raise message.max.bytes here, now "
                f"{self._topics.relay_bytes_max:,}, and max.message.bytes of its topic",
            ) from exception

    def _make_room(self, producer: Producer, deadline: Deadline) -> None:
        """Wait until the producer's queue, which was full, is half empty."""
        full = len(producer)
        while len(producer) > full // 2:
            self._pair.check_stopping()
            if deadline.over:
                raise DeadlineExceeded("Kafka takes messages too slowly: the producer's queue stays full")
            producer.poll(_ROOM_S)

    # -- messages that Kafka does not take -----------------------------------------------------------------------------

    def _unusable(self, batch: Sequence[Stored], deadline: Deadline) -> list[Failure]:
        """The messages whose topics cannot be used. Topics that were seen before are not looked at again."""
        if among := [message for message in batch if self._holds_receipts(message.topic)]:
            return [
                Failure(message, ParkError(_AMONG_RECEIPTS.format(message.topic), at_once=True)) for message in among
            ]
        unknown = self._topics.unknown({message.topic for message in batch})
        if not unknown:
            return []
        refused = self._topics.find(unknown, deadline)
        self._pair.warm(unknown - refused.keys(), deadline)
        return [Failure(message, refused[message.topic]) for message in batch if message.topic in refused]

    def _holds_receipts(self, topic: str) -> bool:
        """Whether receipts stand there, ours or another relay's: a message among them could replace one."""
        return topic == self._receipts_topic or topic.startswith(RECEIPTS_PREFIX)

    def _forget_topics(self, batch: Sequence[Stored]) -> None:
        """Look at the topics again before anything is sent to them: here, or by the next owner."""
        self._topics.forget({message.topic for message in batch})

    def _overdue(self, producer: Producer, batch: Sequence[Stored], deadline: Deadline) -> list[Failure]:
        """Wait until all is delivered. The messages to blame where that takes long: those whose topic is gone."""
        if not producer.flush(deadline.left_s(_DELIVERED_S)):
            return []
        self._forget_topics(batch)
        return self._unusable(batch, deadline)

    def _explain(self, batch: Sequence[Stored], error: KafkaError, deadline: Deadline) -> list[Failure]:
        """The messages because of which a transaction was aborted. Raises what is not about messages."""
        reports = self._reports()
        if self._receipts_topic in reports:
            raise fault(reports[self._receipts_topic], f"writing a receipt to {self._receipts_topic}")
        gone = {topic for topic, report in reports.items() if report.code() in OF_A_TOPIC}
        self._topics.forget(gone)
        if culprits := self._unusable(batch, deadline) or self._culprits(batch, reports, deadline):
            return culprits
        if gone:
            raise Unavailable(f"Kafka did not know the topics {', '.join(sorted(gone))} for a while")
        raise fault(error, "publishing")

    def _culprits(
        self, batch: Sequence[Stored], reports: Mapping[str, KafkaError], deadline: Deadline
    ) -> list[Failure]:
        """The messages that Kafka does not take for what they are themselves."""
        codes = {topic: report.code() for topic, report in reports.items()}
        large = [message for message in batch if codes.get(message.topic) in TOO_LARGE]
        other = [message for message in batch if codes.get(message.topic) in OF_A_MESSAGE - TOO_LARGE]
        search = Search(self._pair, self._send, self._refuse, deadline)
        culprits = search.largest(large) + search.among(other)
        if culprits or not large:
            return culprits
        if self._limit.shrink():
            raise Unavailable(
                f"Kafka refuses a batch as too large: from now on one piece has {self._limit.bytes:,} bytes"
            )
        return search.among(large)

    def _reports(self) -> dict[str, KafkaError]:
        """The topics in which messages were refused in the last transaction."""
        return {topic: error for (topic, code), error in self._pair.reports.items() if code in ABOUT_MESSAGES}
