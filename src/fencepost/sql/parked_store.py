"""The parked messages of an outbox in a SQL database, for an operator: the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

from sqlalchemy.engine import Dialect

from fencepost.errors import FixError
from fencepost.ports import DatabaseOptions, ParkedFilter, ParkedMessage
from fencepost.sql.parked import ParkedMessages
from fencepost.sql.parked_pages import ParkedPages
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


class SqlParkedStore:
    """``fencepost.ports.ParkedStore`` says what each call promises. ``refused`` is why nothing can be retried here."""

    def __init__(self, line: Line, dialect: Dialect, options: DatabaseOptions, refused: FixError | None = None) -> None:
        self._line, self._dialect, self._refused = line, dialect, refused
        self._pages = ParkedPages(dialect, options.schema, options.prefix)
        self._messages = ParkedMessages(options.schema, options.prefix)

    async def page(
        self, which: ParkedFilter, limit: int, after: ParkedMessage | None = None
    ) -> Sequence[ParkedMessage]:
        return await self._line.transaction(lambda: self._pages.page(which, limit, after))

    async def count(self, which: ParkedFilter) -> int:
        return await self._line.transaction(lambda: self._pages.count(which))

    async def payload(self, parked: ParkedMessage) -> bytes | None:
        return await self._line.transaction(lambda: self._pages.payload(parked))

    async def retry(self, rows: Sequence[ParkedMessage], *, keep_versions: bool = False) -> Sequence[str]:
        if self._refused is not None:
            raise self._refused
        places = _places(rows)
        flow = self._messages.retry_at
        return await self._line.transaction(lambda: flow(self._dialect, places, keep_versions=keep_versions))

    async def discard(self, rows: Sequence[ParkedMessage]) -> Sequence[str]:
        places = _places(rows)
        return await self._line.transaction(lambda: self._messages.discard_at(self._dialect, places))

    async def close(self) -> None:
        await self._line.close()


def _places(rows: Sequence[ParkedMessage]) -> list[tuple[str, int | None]]:
    return [(row.message.id, cast("int", row.place)) for row in rows]
