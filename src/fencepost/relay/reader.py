"""Reading an outbox in rounds: from the bottom upwards, page by page, then from the bottom again.

A round never starts above the last row that was seen, because a transaction that commits late shows its rows below it.
For the same reason a page further up counts only where nothing has appeared below it meanwhile: the transaction may
have rows there too, and those of one key must not go before the ones below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencepost.clock import Clock
from fencepost.message import Position, Stored
from fencepost.ports import Lane, Session
from fencepost.relay.known import Known
from fencepost.relay.order import Order

ROUND_PAGES = 16
"""Pages with something to send, before a round ends."""

DUE_EVERY_S = 1.0
"""How late a delayed message may be noticed."""

_DUE_LIMIT = 1000
_NONE_DELAYED_POLLS = 4  # one that is added wakes the reader, but for a race with its falling asleep: ask seldom
_FIRST_GUESS_BYTES = 4096
_SIZES = 200  # of a page that are looked at


class Reader:
    """The pages of one session. ``idle`` is called when everything that can be sent is in hand.

    Rows that ``takes`` does not want are somebody else's: they are read, and left alone.
    """

    def __init__(
        self,
        session: Session,
        lane: Lane,
        order: Order,
        known: Known,
        *,
        limit: int,
        page_bytes: int,
        poll_s: float,
        idle: Callable[[], None],
        clock: Clock,
        takes: Callable[[Stored], bool] | None = None,
    ) -> None:
        self._session, self._lane, self._order, self._known, self._clock = session, lane, order, known, clock
        self._limit, self._page_bytes, self._poll_s, self._idle = limit, page_bytes, poll_s, idle
        self._takes = takes
        self._average_bytes = float(_FIRST_GUESS_BYTES)
        self._after: Position | None = None
        self._seen: set[Position] = set()  # every row of this round
        self._pages = 0
        self._due_checked = float("-inf")
        self._due_left = False  # more are due than one call releases
        self._due_at = float("-inf")

    @property
    def more(self) -> bool:
        """Whether the last page was full, so that the next one can be read at once."""
        return self._after is not None

    async def next(self) -> Sequence[Stored]:
        """The next rows that may be sent, at least one; waits for them."""
        while True:
            await self._release_due()
            chosen = await self._page()
            if chosen:
                if self._due_left:  # they come as quickly as they are published
                    self._due_checked = float("-inf")
                return chosen
            if self._after is None:
                self._idle()
                await self._wait()

    async def _page(self) -> Sequence[Stored]:
        limit = max(1, min(self._limit, int(self._page_bytes / self._average_bytes)))
        rows = await self._rows(limit)
        free = self._order.free(rows if self._takes is None else [m for m in rows if self._takes(m)])
        self._known.note(free)
        chosen = self._order.choose(free)
        if rows:
            self._learn_size(rows)
        self._pages += bool(chosen)  # rows that must wait do not end a round: those above them would never be reached
        more = len(rows) >= limit and self._pages < ROUND_PAGES
        self._after = rows[-1].position if more else None
        if not more:
            self._pages = 0
        return chosen

    async def _rows(self, limit: int) -> Sequence[Stored]:
        """The next page of this round; the first one of a new round, where something has appeared below."""
        if self._after is not None:
            self._order.begin_read(bottom=False)
            rows = await self._session.pending(self._lane, limit, self._after)
            below = await self._session.below(self._lane, self._after, len(self._seen) + 1)
            if self._seen.issuperset(below):
                self._seen.update([m.position for m in rows])
                return rows
        self._order.begin_read(bottom=True)
        rows = await self._session.pending(self._lane, limit)
        self._known.look(rows, everything=len(rows) < limit)
        self._seen = {m.position for m in rows}
        self._pages = 0
        return rows

    def _learn_size(self, rows: Sequence[Stored]) -> None:
        some = rows[:: len(rows) // _SIZES + 1]
        mean = sum([len(m.payload) if m.payload else 0 for m in some]) / len(some)
        self._average_bytes = max(1.0, (self._average_bytes + mean) / 2)

    async def _release_due(self) -> None:
        now = self._clock.monotonic()
        if now >= self._due_at and now - self._due_checked >= DUE_EVERY_S:
            next_s = await self._session.release_due(_DUE_LIMIT)
            self._due_checked = self._clock.monotonic()
            self._due_left = next_s is not None and next_s <= 0
            none_s = _NONE_DELAYED_POLLS * self._poll_s
            self._due_at = self._due_checked + (none_s if next_s is None else min(next_s, self._poll_s))

    async def _wait(self) -> None:
        now = self._clock.monotonic()
        timeout_s = min(self._poll_s, max(0.0, self._due_at - now, self._due_checked + DUE_EVERY_S - now))
        next_try_s = self._order.next_try_s()
        timeout_s = timeout_s if next_try_s is None else min(timeout_s, next_try_s)
        await self._session.wait(self._lane, timeout_s)
        if self._clock.monotonic() - now < timeout_s:
            self._due_at = float("-inf")  # woken: perhaps by a delayed message, which no page shows
