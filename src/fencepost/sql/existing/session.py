"""A session with an existing table: that of the database, less what the table does not have."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.errors import ConfigurationError
from fencepost.existing import ExistingTable
from fencepost.message import Position, Stored
from fencepost.ports import Lane, Session
from fencepost.receipt import PositionRange

LONGEST_WAIT_S = 1.0
"""Nobody announces a message."""

REMEMBERED_MAX = 10_000

Failures = dict[tuple[Position, str], int]
"""How often a message has failed, where the table does not count that: by position and id."""


class ExistingSession:
    """``fencepost.ports.Session`` says what each call promises. ``failures`` outlive the session."""

    def __init__(self, inner: Session, table: ExistingTable, failures: Failures) -> None:
        self._inner, self._table, self._failures = inner, table, failures

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        rows = await self._inner.pending(lane, limit, after)
        if not self._failures:
            return rows
        return [m._replace(attempts=self._failures.get((m.position, m.id), m.attempts)) for m in rows]

    async def below(self, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        return await self._inner.below(lane, position, limit)

    async def held(self, ranges: Sequence[PositionRange]) -> Sequence[tuple[Position, str]]:
        return await self._inner.held(ranges)

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        settled = await self._inner.settle(rows)
        self._forget(rows)
        return settled

    async def reserve(self, position: Position) -> bool:
        """Nothing is known of how positions are handed out: where one comes back, the id tells another message."""
        return False

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        if self._table.in_doubt is None:
            raise ConfigurationError(
                f"the table {self._table.table} has no state for what is being sent: a repeat could not be marked",
                remedy="name one: [existing] state and in_doubt; or use a broker that recognises repeats",
            )
        await self._inner.in_doubt(rows, token)

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        if self._table.attempts is None:
            for message, _ in rows[: max(0, REMEMBERED_MAX - len(self._failures))]:
                self._failures[message.position, message.id] = message.attempts + 1
        if self._table.attempts is not None or self._table.last_error is not None:
            await self._inner.failed(rows)

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        await self._inner.park(rows)
        self._forget([(message.position, message.id) for message, _ in rows])

    async def release_due(self, limit: int) -> float | None:
        return None

    async def wait(self, lane: Lane, timeout_s: float) -> None:
        await self._inner.wait(lane, min(timeout_s, LONGEST_WAIT_S))

    async def close(self) -> None:
        await self._inner.close()

    def _forget(self, rows: Sequence[tuple[Position, str]]) -> None:
        if self._failures:
            for row in rows:
                self._failures.pop(row, None)
