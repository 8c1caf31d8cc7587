"""The parked messages of an outbox in a SQL database, for an operator: the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from sqlalchemy.engine import Dialect

from fencepost.errors import FixError
from fencepost.ports import DatabaseOptions, ParkedFilter, ParkedMessage
from fencepost.ports.parking import filtered_count, filtered_page
from fencepost.sql.parked import ParkedMessages
from fencepost.sql.parked_pages import ParkedPages, exact
from fencepost.sql.place import OnServer
from fencepost.sql.transaction import Work

T = TypeVar("T")


class Line(Protocol):
    """A connection on which flows are run."""

    async def transaction(self, make: Callable[[], Work[T]]) -> T:
        """Run a flow in a transaction of its own, in time; its errors belong to one of the families."""
        ...

    async def close(self) -> None:
        """Give it back. Never raises."""
        ...


class ServerLine:
    """The connection of whoever looks after parked messages at a server: neither reads nor settles wait for it.

    ``run`` runs a flow in a transaction of a connection; what raises is rolled back.
    """

    def __init__(
        self, outbox: OnServer, connection: Any, run: Callable[[Any, Work[Any]], Coroutine[Any, Any, Any]]
    ) -> None:
        self._outbox, self._connection, self._run = outbox, connection, run

    async def transaction(self, make: Callable[[], Work[T]]) -> T:
        result: T = await self._outbox.in_time(self._run(self._connection, make()))
        return result

    async def close(self) -> None:
        await self._outbox.end(self._connection)


class SqlParkedStore:
    """``fencepost.ports.ParkedStore`` says what each call promises. ``refused`` is why nothing can be retried here."""

    def __init__(self, line: Line, dialect: Dialect, options: DatabaseOptions, refused: FixError | None = None) -> None:
        self._line, self._dialect, self._refused = line, dialect, refused
        self._pages = ParkedPages(dialect, options.schema, options.prefix)
        self._messages = ParkedMessages(options.schema, options.prefix)

    async def page(
        self, which: ParkedFilter, limit: int, after: ParkedMessage | None = None
    ) -> Sequence[ParkedMessage]:
        return await filtered_page(partial(self._read, which), which, limit, after)

    async def count(self, which: ParkedFilter) -> int:
        if exact(which):
            return await self._line.transaction(partial(self._pages.count, which))
        return await filtered_count(partial(self._read, which), which)

    async def payload(self, parked: ParkedMessage) -> bytes | None:
        return await self._line.transaction(partial(self._pages.payload, parked))

    async def retry(self, rows: Sequence[ParkedMessage], *, keep_versions: bool = False) -> Sequence[str]:
        if self._refused is not None:
            raise self._refused
        flow = partial(self._messages.retry_at, keep_versions=keep_versions)
        return await self._line.transaction(partial(flow, self._dialect, _places(rows)))

    async def discard(self, rows: Sequence[ParkedMessage]) -> Sequence[str]:
        return await self._line.transaction(partial(self._messages.discard_at, self._dialect, _places(rows)))

    async def close(self) -> None:
        await self._line.close()

    async def _read(self, which: ParkedFilter, most: int, after: ParkedMessage | None) -> Sequence[ParkedMessage]:
        return await self._line.transaction(partial(self._pages.read, which, most, after))


def _places(rows: Sequence[ParkedMessage]) -> list[tuple[str, int | None]]:
    return [(row.message.id, cast("int", row.place)) for row in rows]
