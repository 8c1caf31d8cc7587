"""What the sources of both forms share: how a session begins, and how a question is asked beside it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from fencepost.databases.mongodb.connection import Line, Outbox
from fencepost.databases.mongodb.deployment import has_streams
from fencepost.mongo.client import Client
from fencepost.mongo.faults import ERRORS
from fencepost.ports import Backlog, DatabaseOptions, ParkedStore, Session


class MongoSource(ABC):
    """An outbox that a relay reads."""

    without_streams: ClassVar[str]
    """What is said where changes cannot be watched."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)

    async def connect(self) -> Session:
        return self._session(await self._line())

    async def parked(self) -> ParkedStore:
        return self._store(await self._line())

    async def _line(self) -> Line:
        outbox = self._outbox
        line = Line(outbox)
        try:
            async with asyncio.timeout(outbox.timeout_s):
                await line.begin()
                await self._check(line)
        except ERRORS as error:
            await line.close()
            raise outbox.unreachable(error) from error
        except BaseException:
            await line.close()
            raise
        return line

    async def backlog(self) -> Backlog:
        return await self._outbox.in_time(self._backlog)

    async def advice(self) -> Sequence[str]:
        """What would make this database a better outbox."""
        return await self._outbox.in_time(self._advice)

    async def _advice(self, client: Client) -> Sequence[str]:
        return [] if await has_streams(client, self._outbox.address.database) else [self.without_streams]

    @abstractmethod
    async def _check(self, line: Line) -> None:
        """Raise what keeps this database, or this user, from being an outbox."""

    @abstractmethod
    def _session(self, line: Line) -> Session: ...

    @abstractmethod
    def _store(self, line: Line) -> ParkedStore: ...

    @abstractmethod
    async def _backlog(self, client: Client) -> Backlog: ...
