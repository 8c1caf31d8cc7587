"""The cluster, and the lanes that stand by: see fencepost.ports.Broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from threading import Lock
from weakref import WeakSet

from confluent_kafka.admin import AdminClient

from fencepost.brokers.kafka.clients import Clients
from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.encoding.encoders import Encoders
from fencepost.brokers.kafka.publisher import BatchLimit
from fencepost.brokers.kafka.settings import parse
from fencepost.brokers.kafka.standby import Cluster, Standby
from fencepost.brokers.kafka.topics import Topics
from fencepost.brokers.kafka.worker import Worker
from fencepost.errors import FencepostError
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Handoff, Lane, Term

_RECEIPT_BYTES = 32
"""What one message adds to a receipt, at most: its digest, and a position of 20 digits that no other one follows."""


class KafkaBroker:
    """See Broker. All of its clients have their own connections; every call to them runs in a worker thread."""

    def __init__(self, options: BrokerOptions) -> None:
        """Raises ConfigurationError."""
        settings = parse(options)
        clients = Clients(settings)
        self._settings, self._clients, self._clock = settings, clients, options.clock
        self._encoders = (
            Encoders(settings.encoders, options.clock, create=options.create) if settings.encoders else None
        )
        self._admin: AdminClient | None = None
        self._admin_lock = Lock()
        self._cluster = Cluster(
            settings=settings,
            clients=clients,
            topics=Topics(settings, self._admin_client, create=options.create),
            limit=BatchLimit(),
            envelope=options.envelope("ce_"),
            clock=options.clock,
            encoders=self._encoders,
        )
        self._standbys: dict[str, Standby] = {}
        self._handoffs: WeakSet[Handoff] = WeakSet()

    async def open(self) -> Capabilities:
        """See Broker. Raises AccessDenied or Unavailable as soon as that is clear, at the latest after the timeout."""
        try:
            await self._once(self._check)
        except FencepostError:
            self._let_registry_go()
            raise
        bytes_max = self._settings.message_bytes_max
        return Capabilities(
            delivery=Delivery.ATOMIC, batch_max=bytes_max // _RECEIPT_BYTES, message_bytes_max=bytes_max
        )

    async def rehearse(self, lane: Lane) -> None:
        """Raise FixError or RetryError for schemas that cannot be had now. Changes nothing; see app.checking."""
        if self._encoders is not None:
            await self._once(self._encoders.rehearse)

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker. Creates missing topics where that is allowed, and says nothing of those that cannot be."""
        standby = self._standbys.get(lane.name)
        if standby is None:
            standby = self._standbys[lane.name] = Standby(lane, self._cluster)
        await standby.refresh(topics)

    async def take_over(self, lane: Lane, term: Term) -> Handoff:
        """See Broker. A transaction that the last owner left open is aborted here, so that it holds back no reader."""
        standby = self._standbys.pop(lane.name, None) or Standby(lane, self._cluster)
        try:
            handoff = await standby.take_over(term)
        except BaseException:
            await standby.close()
            raise
        self._handoffs.add(handoff)
        return handoff

    async def close(self) -> None:
        """See Broker. Handoffs that are still used are closed too."""
        standbys, self._standbys = self._standbys, {}
        used: list[Standby | Handoff] = [*standbys.values(), *self._handoffs]
        await asyncio.gather(*(one.close() for one in used))
        with self._admin_lock:
            self._admin = None
        self._let_registry_go()

    def _let_registry_go(self) -> None:
        if self._encoders is not None:
            self._encoders.close()

    async def _once(self, call: Callable[[], None]) -> None:
        """Run a call in a thread of its own."""
        worker = Worker("fencepost-kafka-open")
        try:
            await worker.run(call)
        finally:
            await worker.end(_nothing, 0)

    def _check(self) -> None:
        self._clients.check(Deadline(self._clock, self._settings.timeout_s))
        if self._encoders is not None:
            self._encoders.check()

    def _admin_client(self) -> AdminClient:
        with self._admin_lock:
            if self._admin is None:
                self._admin = self._clients.admin()
            return self._admin


def _nothing() -> None:
    """The last call of a worker that has nothing to close."""
