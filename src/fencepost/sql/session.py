"""What the sessions of database servers share: connections that take turns, and an end that is for good."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fencepost.errors import ConnectionLost, DeadlineExceeded
from fencepost.sql.place import OnServer

T = TypeVar("T")


class Turns:
    """A connection, and whose turn it is."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.turn = asyncio.Lock()


class ServerSession(ABC):
    """It lives until its first trouble; after that every call raises ConnectionLost."""

    def __init__(self, outbox: OnServer) -> None:
        self._server = outbox
        self._lost: str | None = None

    def _must_live(self) -> None:
        if self._lost is not None:
            raise ConnectionLost(f"{self._server.place}: {self._lost}")

    async def _call(self, link: Turns, work: Callable[[Any], Awaitable[T]]) -> T:
        """One call on one connection, in time. What leaves it unknown what the server did ends the session."""
        self._must_live()
        try:
            async with asyncio.timeout(self._server.options.timeout_s), link.turn:
                return await work(link.connection)
        except self._server.errors as error:
            fault = self._server.fault_of(error)
            if isinstance(fault, (ConnectionLost, DeadlineExceeded)):
                self._end(fault.what.removeprefix(f"{self._server.place}: "))
            raise fault from error

    @abstractmethod
    def _end(self, why: str) -> None:
        """Drop the connections, and let every waiting call know; the first cause is the one that is told."""
