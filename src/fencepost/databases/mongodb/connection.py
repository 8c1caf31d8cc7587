"""One outbox in MongoDB, and the connection that a session lives on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pymongo import monitoring

from fencepost.errors import ConnectionLost, DeadlineExceeded
from fencepost.mongo.address import parse
from fencepost.mongo.client import Access, leave, reach
from fencepost.mongo.faults import ERRORS
from fencepost.ports import DatabaseOptions

T = TypeVar("T")

_WRITES = {"RSPrimary", "Mongos", "Standalone", "LoadBalancer"}


class Outbox(Access):
    """One outbox."""

    def __init__(self, options: DatabaseOptions) -> None:
        super().__init__(parse(options.url, options.schema), options.timeout_s)
        self.options = options


class Line(monitoring.ConnectionPoolListener, monitoring.TopologyListener):
    """The client of one session, until its first trouble. It ends where the driver would connect anew, too.

    ``bell`` is rung when somebody may have added a message, and when the line ends.
    """

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.bell = asyncio.Event()
        self.client = outbox.client(self)
        self.database = outbox.database(self.client)
        self._lost: str | None = None
        self._calls: set[asyncio.Future[Any]] = set()
        self._primary: tuple[str, int | None] | None = None

    async def begin(self) -> None:
        """Connect. Whoever calls keeps the deadline and maps the errors."""
        await reach(self.client)
        description = self.client.topology_description
        writable = [s.address for s in description.server_descriptions().values() if s.server_type_name in _WRITES]
        self._primary = writable[0] if writable else None

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """One call, in time. What leaves it unknown what the server did ends the line."""
        self.must_live()
        call = asyncio.ensure_future(work())
        self._calls.add(call)
        try:
            async with asyncio.timeout(self.outbox.timeout_s):
                return await call
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self._lost is None or (current is not None and current.cancelling()):
                raise
            raise self._gone() from None
        except ERRORS as error:
            fault = self.outbox.fault_of(error)
            if isinstance(fault, (ConnectionLost, DeadlineExceeded)):
                self.end(fault.what.removeprefix(f"{self.outbox.place}: "))
            raise fault from error
        finally:
            self._calls.discard(call)

    async def transaction(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """One call that is one transaction. ``work`` is given its session."""

        async def run() -> T:
            async with self.client.start_session() as session, await session.start_transaction():
                return await work(session)

        return await self.call(run)

    def must_live(self) -> None:
        """Raise ConnectionLost where the line has ended."""
        if self._lost is not None:
            raise self._gone()

    def end(self, why: str) -> None:
        """Nothing works from now on, and what runs ends."""
        self._lost = self._lost or why
        for call in self._calls:
            call.cancel()
        self.bell.set()

    async def close(self) -> None:
        """Give the connections back. Never raises."""
        self.end("the session is closed")
        await leave(self.client)

    def _gone(self) -> ConnectionLost:
        return ConnectionLost(f"{self.outbox.place}: {self._lost}")

    # -- what the driver tells ----------------------------------------------------------------------------------------

    def pool_cleared(self, event: monitoring.PoolClearedEvent) -> None:
        """The connections of a server have become useless: it restarted, or cannot be reached."""
        self.end("the connection was closed")

    def description_changed(self, event: monitoring.TopologyDescriptionChangedEvent) -> None:
        """Another server may have become the primary."""
        servers = event.new_description.server_descriptions().values()
        writable = {server.address for server in servers if server.server_type_name in _WRITES}
        if self._primary is not None and writable and self._primary not in writable:
            self.end("another server became the primary")

    def opened(self, event: monitoring.TopologyOpenedEvent) -> None: ...
    def closed(self, event: monitoring.TopologyClosedEvent) -> None: ...
    def pool_created(self, event: monitoring.PoolCreatedEvent) -> None: ...
    def pool_ready(self, event: monitoring.PoolReadyEvent) -> None: ...
    def pool_closed(self, event: monitoring.PoolClosedEvent) -> None: ...
    def connection_created(self, event: monitoring.ConnectionCreatedEvent) -> None: ...
    def connection_ready(self, event: monitoring.ConnectionReadyEvent) -> None: ...
    def connection_closed(self, event: monitoring.ConnectionClosedEvent) -> None: ...
    def connection_check_out_started(self, event: monitoring.ConnectionCheckOutStartedEvent) -> None: ...
    def connection_check_out_failed(self, event: monitoring.ConnectionCheckOutFailedEvent) -> None: ...
    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None: ...
    def connection_checked_in(self, event: monitoring.ConnectionCheckedInEvent) -> None: ...
