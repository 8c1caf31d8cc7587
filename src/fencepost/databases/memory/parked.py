"""The parked messages of a database in memory, for an operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fencepost import gate
from fencepost.databases.memory.rows import ParkedRow
from fencepost.databases.memory.shared import MemoryDatabase
from fencepost.ports import DatabaseOptions, ParkedFilter, ParkedMessage
from fencepost.ports.parking import again, gone


class MemoryParked:
    """``fencepost.ports.ParkedStore`` says what each call promises. A place is the row itself."""

    def __init__(self, database: MemoryDatabase, options: DatabaseOptions) -> None:
        self._database, self._options = database, options
        self._bells = gate.Bells()

    async def page(
        self, which: ParkedFilter, limit: int, after: ParkedMessage | None = None
    ) -> Sequence[ParkedMessage]:
        await self._enter("parked")
        found = list(self._those(which))
        if after is not None:
            found = [one for one in found if _order(one) > _order(after)]
        return found[:limit]

    async def count(self, which: ParkedFilter) -> int:
        await self._enter("count")
        return sum(1 for _ in self._those(which))

    async def payload(self, parked: ParkedMessage) -> bytes | None:
        await self._enter("payload")
        if (row := self._there(parked)) is None:
            raise gone(self._database.url, parked)
        return row.message.payload

    async def retry(self, rows: Sequence[ParkedMessage], *, keep_versions: bool = False) -> Sequence[str]:
        await self._enter("retry")
        there = [row for one in rows if (row := self._there(one)) is not None]
        with self._database.transaction() as transaction:
            for row in there:
                transaction.put_back(again(row.message, keep_version=keep_versions))
        return self._gone(there)

    async def discard(self, rows: Sequence[ParkedMessage]) -> Sequence[str]:
        await self._enter("discard")
        return self._gone([row for one in rows if (row := self._there(one)) is not None])

    async def close(self) -> None:
        return

    async def _enter(self, name: str) -> None:
        await self._database.gate.enter(name, self._options.clock, self._options.timeout_s, self._bells)

    def _those(self, which: ParkedFilter) -> Iterator[ParkedMessage]:
        every = sorted((_shown(row) for row in self._database.parked), key=_order)
        return (one for one in every if which.matches(one))

    def _there(self, parked: ParkedMessage) -> ParkedRow | None:
        row = self._database._state.parked.get(parked.message.id)
        return row if row is parked.place else None

    def _gone(self, rows: Sequence[ParkedRow]) -> list[str]:
        gone = [row.message.id for row in rows]
        for message_id in gone:
            del self._database._state.parked[message_id]
        return gone


def _shown(row: ParkedRow) -> ParkedMessage:
    payload = row.message.payload
    return ParkedMessage(
        message=row.message._replace(payload=None),
        payload_bytes=None if payload is None else len(payload),
        reason=row.reason,
        parked_at=row.parked_at,
        place=row,
    )


def _order(parked: ParkedMessage) -> tuple[object, ...]:
    return parked.parked_at, int(parked.message.position)
