"""The two producers of a lane, which take turns. Every method but ``begin`` may block; one thread at a time uses them.

After a commit Kafka still writes the end of the transaction into every partition. A producer that begins its next one
before that is done is told to wait, and librdkafka then waits 20 ms; meanwhile the other producer need not wait.

Two transactional ids make the fence a matter of order. A take-over initialises the first id, then the second, and the
first commit of a handoff always goes by the first id. Whoever succeeds there after initialising both knows that nobody
took the lane over in between, and that both producers of every earlier owner were fenced before the receipts were read.
Without that rule two owners who take over at the same time could end with one live producer each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event

from confluent_kafka import KafkaError, Message, Producer

from fencepost.brokers.kafka.clients import Clients
from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.faults import PRODUCER_ERRORS, cause, fault
from fencepost.errors import ConnectionLost
from fencepost.ports import Lane

PRODUCERS = 2
"""Every version of this program must use the same number: a take-over fences these and no others."""

_SLICE_S = 1.0
_AGAIN_S = 0.02
_LAST_ABORT_S = 2.0


def transactional_ids(lane: Lane) -> list[str]:
    """The ids of a lane's producers, in the order in which a take-over initialises them."""
    return [f"fencepost.{lane.name}", f"fencepost.{lane.name}.second"]


class MustAbort(Exception):
    """Kafka does not commit this transaction: it must be aborted, then things may go on."""

    def __init__(self, error: KafkaError) -> None:
        self.error = error
        super().__init__(error.str())


class Pair:
    """Making one connects; nobody is fenced before ``fence``. ``batch_bytes``: see BatchLimit."""

    def __init__(self, lane: Lane, clients: Clients, batch_bytes: int | None) -> None:
        self.batch_bytes = batch_bytes
        self.reports: dict[tuple[str, int], KafkaError] = {}
        """What was said of messages that were not delivered, since the last ``begin``: by topic and error code."""
        self.stopping = Event()
        """Set from any thread: what is being done ends soon with ConnectionLost, if possible without a commit."""
        self.open: Producer | None = None
        """The producer whose transaction is open."""
        self._lane = lane
        self._turn = 0
        self._pause = Event()  # never set: waiting for it is a sleep
        self._producers = [clients.producer(name, batch_bytes, self._report) for name in transactional_ids(lane)]

    def warm(self, topics: Iterable[str], deadline: Deadline) -> None:
        """Fetch what the producers need to know of topics, so that the first messages need not wait for it."""
        wanted = list(topics)
        for producer in self._producers:
            for topic in wanted:
                try:
                    producer.list_topics(topic, timeout=deadline.left_s())
                except PRODUCER_ERRORS as exception:
                    raise fault(cause(exception), f"looking up the topic {topic}") from exception
            _serve(producer)

    def fence(self, deadline: Deadline) -> None:
        """Fence every earlier owner. What they had begun is aborted, or completed where a commit had been decided."""
        for producer in self._producers:
            self._insist(producer.init_transactions, f"taking over lane {self._lane.name}", deadline)

    def begin(self) -> Producer:
        """Begin a transaction. The producer that it goes by."""
        producer = self._producers[self._turn]
        self.reports.clear()
        try:
            producer.begin_transaction()
        except PRODUCER_ERRORS as exception:
            raise fault(cause(exception), "beginning a transaction") from exception
        self.open = producer
        return producer

    def commit(self, deadline: Deadline) -> None:
        """Commit what was begun. Raises MustAbort, or an error's own family where nobody knows what happened."""
        if self.open is not None:
            self.check_stopping()
            self._insist(self.open.commit_transaction, "committing a transaction", deadline)
            self.open = None
            self._turn = (self._turn + 1) % PRODUCERS  # nothing else moves it: the first commit goes by the first id

    def abort(self, deadline: Deadline) -> None:
        """Abort what was begun; every report is there afterwards."""
        if self.open is not None:
            try:
                self._insist(self.open.abort_transaction, "aborting a transaction", deadline)
            except MustAbort as error:
                raise fault(error.error, "aborting a transaction") from error
            _serve(self.open)
            self.open = None

    def why(self, error: KafkaError) -> KafkaError:
        """The error behind ``error``: a transaction that has failed says why when it is asked to begin once more."""
        if self.open is not None:
            try:
                self.open.begin_transaction()
            except PRODUCER_ERRORS as exception:
                told = cause(exception)
                return error if told.code() == KafkaError._STATE else told
        return error

    def close(self) -> None:
        """Abort what is open, where the broker answers soon, and let the connections go. Never raises."""
        producer, self.open = self.open, None
        if producer is not None:
            with suppress(*PRODUCER_ERRORS):
                producer.abort_transaction(_LAST_ABORT_S)
        self._producers.clear()

    def check_stopping(self) -> None:
        """Raise ConnectionLost once ``stopping`` is set."""
        if self.stopping.is_set():
            raise ConnectionLost("the handoff was closed while it published")

    def _insist(self, call: Callable[[float], None], doing: str, deadline: Deadline) -> None:
        """Repeat a call for as long as Kafka says that this helps. In slices, so that it can be stopped."""
        while True:
            try:
                return call(deadline.left_s(_SLICE_S))
            except PRODUCER_ERRORS as exception:
                error = cause(exception)
                if error.txn_requires_abort():
                    raise MustAbort(error) from exception
                if not error.retriable() or deadline.over:
                    raise fault(error, doing) from exception
            self.check_stopping()
            self._pause.wait(_AGAIN_S)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.reports.setdefault((message.topic() or "", error.code()), error)


def _serve(producer: Producer) -> None:
    """Take what has been reported; an error that is fatal shows itself at the next call as well."""
    with suppress(*PRODUCER_ERRORS):
        producer.poll(0)
