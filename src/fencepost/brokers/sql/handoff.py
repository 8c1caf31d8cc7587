"""The fenced handoff: a batch and its receipt in one transaction of the consumer's database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from fencepost.brokers.sql.connection import Line
from fencepost.brokers.sql.rows import Row, Rows
from fencepost.brokers.sql.store import Store, Taken, is_about_rows
from fencepost.clock import Clock
from fencepost.errors import Fenced, ParkError
from fencepost.handoffs import Validity
from fencepost.message import Stored
from fencepost.ports import Failure, Lane, Outcome, Term
from fencepost.receipt import RECEIPTS_KEPT, Receipt, Receipts
from fencepost.sql.link import Wire

_TOO_MANY = 2 * RECEIPTS_KEPT


@dataclass(frozen=True, slots=True)
class Destination:
    """What a handoff needs of its broker. ``leave`` takes back a line on which nothing is under way."""

    line: Line
    store: Store
    rows: Rows
    clock: Clock
    timeout_s: float
    leave: Callable[[Line], Awaitable[None]]


class SqlHandoff:
    """See fencepost.ports.Handoff. It has a connection of its own, for which ``leave`` cares when it is not needed any
    more.
    """

    def __init__(self, to: Destination, lane: Lane, term: Term, taken: Taken) -> None:
        self._line, self._store, self._rows = to.line, to.store, to.rows
        self._lane, self._term, self._clock, self._timeout_s = lane, term, to.clock, to.timeout_s
        self._leave = to.leave
        self._fence = taken.fence
        self._counter = taken.receipts[-1].counter if taken.receipts else 0
        self._kept = len(taken.receipts)
        self._receipts = Receipts(taken.receipts)
        self._validity = Validity(lane)

    @property
    def receipts(self) -> Receipts:
        """See Handoff."""
        return self._receipts

    @property
    def is_over(self) -> bool:
        """Void, by an error or because it was closed."""
        return self._validity.is_void

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff."""
        with self._validity.publishing():
            rows, failed = self._rows.made(batch, self._lane, self._clock.now())
            if failed or not batch:
                return Outcome((), failed)
            async with self._line.use(self._timeout_s) as wire:
                failed = await self._hand_off(wire, batch, rows)
        return Outcome((), failed) if failed else Outcome(batch)

    async def close(self) -> None:
        """See Handoff. What had been sent may be committed; the next take-over tells."""
        is_idle = not self._validity.is_void
        self._validity.end()
        await (self._leave(self._line) if is_idle else self._line.close())

    async def _hand_off(self, wire: Wire, batch: Sequence[Stored], rows: Sequence[Row]) -> list[Failure]:
        """Publish; the messages that the database does not take, where there are any and nothing was published."""
        owner, token = self._term.owner, self._term.token
        receipt = Receipt.of(batch, fence=self._fence, counter=self._counter + 1, token=token, owner=owner)
        try:
            passed = await self._store.put(wire, self._lane, receipt, rows)
        except DBAPIError as error:
            if not is_about_rows(error) or not (failed := await self._culprits(wire, batch, rows)):
                raise
            return failed
        if not passed:
            why = f"lane {self._lane.name} has been taken over, or its row was removed"
            raise Fenced(f"{self._store.place} refused owner {owner!r}: {why}")
        self._counter = receipt.counter
        self._receipts.add(receipt)
        await self._trim(wire)
        return []

    async def _culprits(self, wire: Wire, batch: Sequence[Stored], rows: Sequence[Row]) -> list[Failure]:
        await self._store.abandon(wire)
        refused = await self._store.refused(wire, rows)
        return [Failure(batch[place], self._refusal(batch[place], error)) for place, error in refused.items()]

    def _refusal(self, message: Stored, error: DBAPIError) -> ParkError:
        said = " ".join(str(error.orig).split())[:1000]
        remedy = "change the message, or the constraint or trigger of the table that refuses it"
        return ParkError(f"{self._store.place} does not take message {message.id}: {said}", remedy=remedy)

    async def _trim(self, wire: Wire) -> None:
        self._kept += 1
        if self._kept >= _TOO_MANY:
            await self._store.trim(wire, self._lane, self._counter - RECEIPTS_KEPT + 1)
            self._kept = RECEIPTS_KEPT
