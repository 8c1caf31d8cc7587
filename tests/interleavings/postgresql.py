"""PostgreSQL: the server knows who waits for a lock, and a relay's session is stepped statement by statement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar
from unittest.mock import patch

import asyncpg

from fencepost.ports import Session
from fencepost.testing.interleave import Side, Taken, step
from tests.interleavings.place import FILLED, Place, Row, words_of

T = TypeVar("T")


class SteppedConnection(asyncpg.Connection):  # type: ignore[misc]
    """Each statement is a step: what the relay's session does, statement by statement.

    But for BEGIN, which takes no lock here, and for its hints to writers, whether to wake it: it gives them when it
    sees fit, and no rule rests on them.
    """

    async def execute(self, query: str, *args: Any, **rest: Any) -> Any:
        return await _stepped(query, lambda: super(SteppedConnection, self).execute(query, *args, **rest))

    async def executemany(self, command: str, args: Any, **rest: Any) -> Any:
        return await _stepped(command, lambda: super(SteppedConnection, self).executemany(command, args, **rest))

    async def fetch(self, query: str, *args: Any, **rest: Any) -> Any:
        return await _stepped(query, lambda: super(SteppedConnection, self).fetch(query, *args, **rest))

    async def fetchval(self, query: str, *args: Any, **rest: Any) -> Any:
        return await _stepped(query, lambda: super(SteppedConnection, self).fetchval(query, *args, **rest))


async def _stepped(query: str, call: Callable[[], Awaitable[Any]]) -> Any:
    name = words_of(query)
    return await (call() if name in {"begin", "insert lane"} else step(name, call))


class PostgresqlPlace(Place):
    """The server knows who waits: connections are told apart by their names."""

    driver = "asyncpg"
    patience_s = 0.003
    _WAITING = (
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1"
        " AND cardinality(pg_blocking_pids(pid)) > 0)"
    )
    _observer: Any = None

    async def open(self) -> None:
        await super().open()
        self._observer = await asyncpg.connect(self.options.url)

    async def close(self) -> None:
        await super().close()
        if self._observer is not None:
            await self._observer.close()

    async def clear(self) -> None:
        await self.left.connection.execute("; ".join(f"DELETE FROM {self.options.prefix}{table}" for table in FILLED))

    async def session(self, side: Side) -> Session:
        with patch.object(asyncpg, "connect", partial(asyncpg.connect, connection_class=SteppedConnection)):
            return await super().session(side)

    def url_of(self, side: Side) -> str:
        return f"{self.options.url}?application_name={side}"

    async def connect(self, side: Side) -> Any:
        return await asyncpg.connect(self.url_of(side))

    def in_transaction(self, connection: Any) -> bool:
        return bool(connection.is_in_transaction())

    async def roll_back(self, connection: Any) -> None:
        if connection.is_in_transaction():
            await connection.execute("ROLLBACK")

    async def rows(self, text: str) -> list[Row]:
        found = await self.left.connection.fetch(text)
        return [tuple(str(v) if name == "id" else v for name, v in row.items()) for row in found]

    async def call(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        return await call()

    async def waits(self, taken: Taken) -> bool:
        return bool(await self._observer.fetchval(self._WAITING, taken.side))
