"""Clients of a MongoDB: how every connection to it is made, what is durable, whose clock counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from pymongo import AsyncMongoClient, ReadPreference, monitoring
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from fencepost.errors import ConfigurationError, ConnectionLost, DeadlineExceeded, FencepostError, Unavailable
from fencepost.message import microseconds
from fencepost.mongo.address import Address
from fencepost.mongo.faults import ERRORS, SILENT, fault_of

T = TypeVar("T")

Client = AsyncMongoClient[dict[str, Any]]
Collection = AsyncCollection[dict[str, Any]]

_COMMAND_NOT_FOUND = 59
_LOOK_AGAIN_MS = 2_000  # at a server that does not tell by itself that it has restarted


class Access:
    """A way to one database. ``place`` names it in errors, without a password."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address, self.place = address, address.place
        self.timeout_s = timeout_s

    def client(self, *listeners: monitoring.ConnectionPoolListener | monitoring.TopologyListener) -> Client:
        """A new client, not connected yet. It repeats nothing by itself: what was lost must be seen."""
        timeout_ms = max(1, int(self.timeout_s * 1000))
        try:
            return AsyncMongoClient(
                self.address.uri,
                appname="fencepost",
                retryReads=False,
                retryWrites=False,
                serverSelectionTimeoutMS=max(1, timeout_ms // 2, timeout_ms - 1_000),  # before our own: it says more
                connectTimeoutMS=timeout_ms,
                socketTimeoutMS=timeout_ms,
                heartbeatFrequencyMS=_LOOK_AGAIN_MS,
                event_listeners=listeners,
            )
        except (*ERRORS, ValueError, TypeError) as error:  # an option of the URL that the driver does not take
            raise ConfigurationError(f"{self.place}: {error}", remedy="see the driver's list of URL options") from error

    def database(self, client: Client) -> AsyncDatabase[dict[str, Any]]:
        """What is read was kept by a majority of the servers, and so is what is written before it is called done."""
        return client.get_database(
            self.address.database,
            read_preference=ReadPreference.PRIMARY,
            read_concern=ReadConcern("majority"),
            write_concern=WriteConcern("majority", j=True, wtimeout=max(1, int(self.timeout_s * 1000))),
        )

    async def in_time(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Await work on a client of its own. Raises FixError, Unavailable or DeadlineExceeded."""
        client = self.client()
        try:
            async with asyncio.timeout(self.timeout_s):
                return await work(client)
        except ERRORS as error:
            raise self.unreachable(error) from error
        finally:
            await leave(client)

    def fault_of(self, error: BaseException) -> FencepostError:
        """The family of an error. One without a text is our own deadline."""
        if isinstance(error, TimeoutError) and not str(error):
            return DeadlineExceeded(f"{self.place} did not answer within {self.timeout_s:g} s", remedy=SILENT)
        return fault_of(error, self.place)

    def unreachable(self, error: BaseException) -> FencepostError:
        """The same where no session was there that could be lost."""
        fault = self.fault_of(error)
        return Unavailable(fault.what, remedy=fault.remedy) if isinstance(fault, ConnectionLost) else fault


async def reach(client: Client) -> None:
    """Connect, so that the driver knows what kind of server it is."""
    await client.aconnect()
    await client.admin.command("ping")


async def now_us(client: Client) -> int:
    """The server's clock, in microseconds since 1970, to the millisecond."""
    try:
        answer = await client.admin.command("hello")
    except OperationFailure as error:
        if error.code != _COMMAND_NOT_FOUND:
            raise
        answer = await client.admin.command("ismaster")
    moment: datetime = answer["localTime"]
    return microseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


async def leave(client: Client) -> None:
    """Close a client, whatever state it is in."""
    with suppress(*ERRORS):
        await client.close()


def chunks(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """The items in parts of ``size``."""
    return [items[start : start + size] for start in range(0, len(items), size)]
