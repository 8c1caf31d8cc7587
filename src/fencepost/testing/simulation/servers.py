"""The servers, and a relay's plug-ins that reach them through the network.

What a server does is done by the plug-ins in memory, in the server's own process: they have the semantics of a real
database, broker and lease store, and pass the same rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fencepost.brokers import memory as memory_broker
from fencepost.clock import Clock
from fencepost.databases import memory as memory_database
from fencepost.elections import memory as memory_election
from fencepost.errors import ConnectionLost, DeadlineExceeded, Unavailable
from fencepost.message import Position, Stored
from fencepost.ports import (
    Backlog,
    BrokerOptions,
    Capabilities,
    DatabaseOptions,
    Delivery,
    Holder,
    Lane,
    LeaseOptions,
    Outcome,
    Term,
)
from fencepost.receipt import PositionRange, Receipts
from fencepost.testing.simulation.loop import Life, Process
from fencepost.testing.simulation.network import Connection, Network, Server
from fencepost.testing.simulation.record import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What servers there are. ``evidence``: the lease store knows when an owner's session has ended. ``timeout_s`` is
    the patience of every client.
    """

    url: str
    delivery: Delivery
    evidence: bool
    timeout_s: float


class Servers:
    """What lasts: three servers, the network to them, the record of what they did."""

    def __init__(self, settings: Settings, network: Network, record: Record, clock: Clock) -> None:
        self.settings, self.network, self.record, self.clock = settings, network, record, clock
        self.rows = memory_database.database(settings.url, clock=clock)
        self.topics = memory_broker.server(settings.url)
        self.terms = memory_election.leases(settings.url, clock=clock)
        self.topics.seen = self._seen
        self.database, self.broker, self.leases = (Server(name, None) for name in ("database", "broker", "leases"))
        self.processes: list[Process] = []
        for server in self.all:
            self.start(server)
        self._settles_read = 0
        self.refuses: Callable[[Stored], bool] = _never
        """Whether the broker refuses a message, this time."""

    @property
    def all(self) -> tuple[Server, Server, Server]:
        """The three servers."""
        return self.database, self.broker, self.leases

    def start(self, server: Server) -> None:
        """Let a server run (again)."""
        if server.process is None:
            server.process = Process(server.name, self.network.loop)
            self.processes.append(server.process)

    def stop(self, server: Server) -> None:
        """A server dies: nothing it was doing goes on, every connection to it ends, what was committed stays."""
        if server.process is not None:
            server.process.crash()
            server.process = None
        for connection in list(server.connections):
            connection.reset()
        if server is self.database:
            self.rows.cut()

    def connect(self, client: Process, server: Server) -> Connection:
        """A new connection. Raises Unavailable where nobody listens."""
        if server.process is None or server.process.life is Life.DEAD:
            raise Unavailable(f"the {server.name} cannot be reached")
        return Connection(self.network, client, server, self.settings.timeout_s)

    def note_settles(self, owner: str) -> None:
        """Record what was settled since the last time."""
        new, self._settles_read = self.rows.settled[self._settles_read :], len(self.rows.settled)
        self.record.settle(owner, new)

    def note_begun(self, term: Term) -> None:
        """A publish begins: where nothing is fenced, nobody else may have the lease now."""
        holder = self.terms.holder(term.name)
        if holder is not None and holder.token != term.token:
            self.record.mark("two owners at once")
            waits = self.record.early_until_s.get((term.name, holder.token), 0.0) > self.record.now_s()
            if self.settings.delivery is not Delivery.ATOMIC and not waits:
                self.record.outside.append(f"{term.owner} ({term.token}) publishes in the term of {holder.owner}")

    def forget(self) -> None:
        """Drop everything."""
        for module in (memory_database, memory_broker, memory_election):
            module.forget(self.settings.url)

    def _seen(self, handoff: memory_broker.MemoryHandoff, message: Stored) -> None:
        self.record.deliver(handoff.lane.name, handoff.term, message)


class RemoteSource:
    """A Source, as one relay reaches it."""

    def __init__(self, servers: Servers, client: Process) -> None:
        self._servers, self._client = servers, client
        url, timeout_s = servers.settings.url, servers.settings.timeout_s
        self._remote = memory_database.source(DatabaseOptions(url=url, timeout_s=timeout_s, clock=servers.clock))

    async def connect(self) -> RemoteSession:
        """See Source."""
        connection = self._servers.connect(self._client, self._servers.database)

        async def connect() -> memory_database.MemorySession:
            session = await self._remote.connect()
            connection.closed = session.end
            return session

        return RemoteSession(self._servers, connection, await connection.call("connect", connect))

    async def backlog(self) -> Backlog:
        """See Source."""
        connection = self._servers.connect(self._client, self._servers.database)
        try:
            return await connection.call("backlog", self._remote.backlog)
        finally:
            connection.close()


class RemoteSession:
    """A Session, as one relay reaches it."""

    def __init__(self, servers: Servers, connection: Connection, remote: memory_database.MemorySession) -> None:
        self._servers, self._connection, self._remote = servers, connection, remote

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        """See Session."""
        return await self._call("pending", lambda: self._remote.pending(lane, limit, after))

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        """See Session."""
        return await self._call("below", lambda: self._remote.below(lane, position, limit))

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        """See Session."""

        async def settle() -> int:
            try:
                return await self._remote.settle(rows)
            finally:
                self._servers.note_settles(self._connection.client.name)

        return await self._call("settle", settle)

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        """See Session."""
        return await self._call("held", lambda: self._remote.held(ranges))

    async def reserve(self, position: Position) -> bool:
        """See Session."""
        return await self._call("reserve", lambda: self._remote.reserve(position))

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        """See Session."""
        await self._call("in_doubt", lambda: self._remote.in_doubt(rows, token))

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        """See Session."""
        await self._call("failed", lambda: self._remote.failed(rows))

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        """See Session."""
        await self._call("park", lambda: self._remote.park(rows))

    async def release_due(self, limit: int) -> float | None:
        """See Session."""
        return await self._call("release_due", lambda: self._remote.release_due(limit))

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        """See Session."""
        await self._call("wait", lambda: self._remote.wait(lane, timeout_s), timeout_s)

    async def close(self) -> None:
        """See Session."""
        self._connection.close()

    async def _call(self, name: str, effect: Callable[[], Awaitable[T]], patience_s: float = 0.0) -> T:
        try:
            return await self._connection.call(name, effect, patience_s)
        except (ConnectionLost, DeadlineExceeded):
            self._connection.close()
            raise


class RemoteBroker:
    """A Broker, as one relay reaches it."""

    def __init__(self, servers: Servers, client: Process) -> None:
        self._servers, self._client = servers, client
        own = servers.settings
        self._remote = memory_broker.broker(
            BrokerOptions(
                url=own.url,
                source="/simulation",
                clock=servers.clock,
                timeout_s=own.timeout_s,
                settings={"delivery": own.delivery.value},
            )
        )
        self._remote.refuses = self._refuses
        self._handoffs: list[RemoteHandoff] = []

    async def open(self) -> Capabilities:
        """See Broker."""
        return await self._once("open", self._remote.open)

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker."""
        await self._once("prepare", lambda: self._remote.prepare(lane, topics))

    async def take_over(self, lane: Lane, term: Term) -> RemoteHandoff:
        """See Broker."""
        connection = self._servers.connect(self._client, self._servers.broker)

        async def take_over() -> tuple[memory_broker.MemoryHandoff, Receipts]:
            handoff = await self._remote.take_over(lane, term)
            connection.closed = handoff.end
            return handoff, Receipts(handoff.receipts)

        try:
            remote, receipts = await connection.call("take_over", take_over)
        except BaseException:
            connection.close()
            raise
        handoff = RemoteHandoff(self._servers, connection, remote, receipts)
        self._handoffs.append(handoff)
        return handoff

    async def close(self) -> None:
        """See Broker."""
        for handoff in self._handoffs:
            await handoff.close()

    def _refuses(self, message: Stored) -> bool:
        return self._servers.refuses(message)  # what it is at this moment

    async def _once(self, name: str, effect: Callable[[], Awaitable[T]]) -> T:
        connection = self._servers.connect(self._client, self._servers.broker)
        try:
            return await connection.call(name, effect)
        finally:
            connection.close()


class RemoteHandoff:
    """A Handoff, as one relay reaches it. ``receipts`` are what the last reply brought."""

    def __init__(
        self, servers: Servers, connection: Connection, remote: memory_broker.MemoryHandoff, receipts: Receipts
    ) -> None:
        self._servers, self._connection, self._remote = servers, connection, remote
        self.receipts = receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff."""

        async def publish() -> tuple[Outcome, Receipts]:
            outcome = await self._remote.publish(batch)
            return outcome, Receipts(self._remote.receipts)

        self._servers.note_begun(self._remote.term)
        outcome, self.receipts = await self._connection.call("publish", publish)
        return outcome

    async def close(self) -> None:
        """See Handoff."""
        self._connection.close()


class RemoteLeases:
    """A LeaseStore, as one relay reaches it: one connection, made again where it was lost."""

    fences = "nothing outside the simulation"

    def __init__(self, servers: Servers, client: Process) -> None:
        self._servers, self._client = servers, client
        self._link: tuple[Connection, memory_election.MemoryLeaseStore] | None = None

    async def open(self) -> None:
        """See LeaseStore."""
        await self._call("open", lambda store: store.open())

    async def rehearse(self) -> None:
        """See LeaseStore."""
        await self._call("rehearse", lambda store: store.rehearse())

    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        """See LeaseStore."""

        async def acquire(store: memory_election.MemoryLeaseStore) -> Term | None:
            term = await store.acquire(name, owner, ttl_s)
            if term is not None:
                self._servers.record.given(term, ttl_s)
            return term

        return await self._call("acquire", acquire)

    async def renew(self, term: Term, ttl_s: float) -> bool:
        """See LeaseStore."""
        return await self._call("renew", lambda store: store.renew(term, ttl_s))

    async def release(self, term: Term) -> None:
        """See LeaseStore."""
        await self._call("release", lambda store: store.release(term))

    async def wait(self, name: str, timeout_s: float) -> None:
        """See LeaseStore."""
        await self._call("wait", lambda store: store.wait(name, timeout_s), timeout_s)

    async def holder(self, name: str) -> Holder | None:
        """See LeaseStore."""
        return await self._call("holder", lambda store: store.holder(name))

    async def close(self) -> None:
        """See LeaseStore."""
        link, self._link = self._link, None
        if link is not None:
            link[0].close()

    async def _call(
        self,
        name: str,
        effect: Callable[[memory_election.MemoryLeaseStore], Awaitable[T]],
        patience_s: float = 0.0,
    ) -> T:
        connection, store = self._linked()
        try:
            return await connection.call(name, lambda: effect(store), patience_s)
        except (ConnectionLost, DeadlineExceeded):
            connection.close()
            raise

    def _linked(self) -> tuple[Connection, memory_election.MemoryLeaseStore]:
        if self._link is None or self._link[0].broken:
            own = self._servers.settings
            store = memory_election.lease_store(
                LeaseOptions(
                    url=own.url,
                    timeout_s=own.timeout_s,
                    clock=self._servers.clock,
                    settings={"session_evidence": "auto" if own.evidence else "off"},
                )
            )
            connection = self._servers.connect(self._client, self._servers.leases)
            connection.closed = store.end
            self._link = connection, store
        return self._link


def _never(_: Stored) -> bool:
    """A broker that takes everything."""
    return False
