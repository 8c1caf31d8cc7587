"""What a take-over of one lane needs, connected in advance, and the take-over itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException

from fencepost.brokers.kafka.clients import Clients
from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.encoding.encoders import Encoders
from fencepost.brokers.kafka.encoding.publisher import EncodingPublisher
from fencepost.brokers.kafka.faults import cause, fault
from fencepost.brokers.kafka.handoff import KafkaHandoff
from fencepost.brokers.kafka.pair import Pair
from fencepost.brokers.kafka.publisher import BatchLimit, Publisher
from fencepost.brokers.kafka.receipts import read_receipts
from fencepost.brokers.kafka.settings import Settings
from fencepost.brokers.kafka.topics import Topics
from fencepost.brokers.kafka.worker import Worker
from fencepost.clock import Clock
from fencepost.envelope import Envelope
from fencepost.ports import Lane, Term
from fencepost.receipt import Receipts

_CLOSE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What all lanes of a broker share."""

    settings: Settings
    clients: Clients
    topics: Topics
    limit: BatchLimit
    envelope: Envelope
    clock: Clock
    encoders: Encoders | None


class Standby:
    """Two producers that have fetched their metadata and have not fenced anybody, and a consumer for the receipts."""

    def __init__(self, lane: Lane, cluster: Cluster) -> None:
        self._lane, self._cluster = lane, cluster
        self._topic = cluster.settings.receipts_topic(lane)
        self._worker = Worker(f"fencepost-kafka-{lane.name}")
        # The worker's thread makes and uses these.
        self._pair: Pair | None = None
        self._consumer: Consumer | None = None

    async def refresh(self, topics: Collection[str]) -> None:
        """Connect, or keep the connections alive. Raises FixError or RetryError; may be called again afterwards."""
        await self._worker.run(self._refresh, topics)

    async def take_over(self, term: Term) -> KafkaHandoff:
        """Fence every earlier owner and read the receipts. This standby is used up, whatever comes of it."""
        publisher, receipts = await self._worker.run(self._take_over)
        self._pair = None  # it is the publisher's now, and the thread is at rest
        cluster = self._cluster
        return KafkaHandoff(publisher, self._worker, receipts, term, cluster.settings.timeout_s, cluster.clock)

    async def close(self) -> None:
        """Let the connections go. Never raises."""
        await self._worker.end(self._close, _CLOSE_S)

    def _refresh(self, topics: Collection[str]) -> None:
        deadline, shared = self._deadline(), self._cluster.topics
        pair, consumer = self._connected(deadline)
        refused = shared.find(shared.unknown(topics), deadline)
        pair.warm([self._topic, *(topic for topic in topics if topic not in refused)], deadline)
        try:
            consumer.list_topics(self._topic, timeout=deadline.left_s())
            consumer.poll(0)
        except KafkaException as exception:
            raise fault(cause(exception), f"looking up the topic {self._topic}") from exception

    def _connected(self, deadline: Deadline) -> tuple[Pair, Consumer]:
        cluster = self._cluster
        if self._pair is None or self._consumer is None or self._pair.batch_bytes != cluster.limit.bytes:
            self._close()
            cluster.topics.find_receipts(self._topic, self._lane.index, deadline)
            self._pair = Pair(self._lane, cluster.clients, cluster.limit.bytes)
            self._consumer = cluster.clients.consumer()
        return self._pair, self._consumer

    def _take_over(self) -> tuple[Publisher | EncodingPublisher, Receipts]:
        cluster, deadline = self._cluster, self._deadline()
        pair, consumer = self._connected(deadline)
        pair.fence(deadline)
        receipts = read_receipts(consumer, self._topic, self._lane.index, self._lane.name, deadline)
        publisher = Publisher(self._lane, self._topic, pair, cluster.topics, cluster.envelope, cluster.limit)
        self._close_consumer()
        return EncodingPublisher(publisher, cluster.encoders) if cluster.encoders else publisher, receipts

    def _close(self) -> None:
        pair, self._pair = self._pair, None
        if pair is not None:
            pair.close()
        self._close_consumer()

    def _close_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _deadline(self) -> Deadline:
        return Deadline(self._cluster.clock, self._cluster.settings.timeout_s)
