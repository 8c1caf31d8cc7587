"""The demonstration's topic in an inbox table: tables of its own in a consumer's database, read by plain SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from fencepost.clock import Clock
from fencepost.demo.readers import OnEntry, beside
from fencepost.errors import FencepostError, SchemaMissing, Unavailable
from fencepost.history import Entry
from fencepost.ports import BrokerOptions
from fencepost.sql.client import client
from fencepost.sql.faults import fault_of

_PAGE = 1000
_LOOK_EVERY_S = 0.02
_ANSWER_S = 20.0


class SqlStage:
    """See Stage."""

    def __init__(self, options: BrokerOptions, topic: str, clock: Clock) -> None:
        """Raises ConfigurationError, or MissingExtra."""
        self._client = client(options.url.partition("+")[2], _ANSWER_S, create=True)
        self._clock = clock
        self._prefix = f"{topic.replace('-', '_')}_"
        key = self._client.engine.dialect.identifier_preparer.quote("key")
        self._page = sa.text(
            f"SELECT seq, id, {key}, version FROM {self._prefix}messages WHERE seq > :after ORDER BY seq LIMIT {_PAGE}"  # noqa: S608
        )

    @property
    def settings(self) -> Mapping[str, object]:
        """See Stage. The relays make the tables."""
        return {"prefix": self._prefix}

    async def create(self) -> None:
        """See Stage."""
        async with self._connected() as connection:
            await connection.execute(sa.text("SELECT 1"))

    def following(self, on_entry: OnEntry) -> AbstractAsyncContextManager[None]:
        """See Stage."""
        return beside(self._follow(on_entry))

    async def _follow(self, on_entry: OnEntry) -> None:
        """The rows of one lane become visible in the order of seq, and there is one lane."""
        after = 0
        async with self._connected() as connection:
            while True:
                rows = await self._rows(connection, after)
                for row in rows:
                    on_entry(_entry(row))
                    after = row.seq
                if len(rows) < _PAGE:
                    await self._clock.sleep(_LOOK_EVERY_S)

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """See Stage. A table is one partition."""
        found: list[Entry] = []
        after = 0
        async with self._connected() as connection:
            while rows := await self._rows(connection, after):
                found += [_entry(row) for row in rows]
                after = rows[-1].seq
        return [found]

    async def drop(self) -> None:
        """See Stage."""
        with suppress(FencepostError):  # the demonstration has said what it had to say
            async with self._connected() as connection:
                for name in ("messages", "messages_lane", "messages_receipt"):
                    await connection.exec_driver_sql(f"DROP TABLE IF EXISTS {self._prefix}{name}")

    async def _rows(self, connection: Any, after: int) -> Sequence[Any]:
        """Nothing before a relay has made the table."""
        try:
            rows: Sequence[Any] = (await connection.execute(self._page, {"after": after})).all()
        except DBAPIError as error:
            if not isinstance(fault_of(error, self._client.place), SchemaMissing):
                raise
            return ()
        return rows

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        place = self._client.place
        try:
            async with self._client.engine.connect() as connection:
                yield connection
        except (DBAPIError, OSError) as error:
            raise fault_of(error, place) or Unavailable(f"{place}: {error!r}") from error


def _entry(row: Any) -> Entry:
    return Entry(row.id, row.key, row.version)
