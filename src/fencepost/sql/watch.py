"""How long a reader that found nothing waits before it looks again, and when writers should wake it instead.

To notify in every transaction would cost writers a third of their rate, so a reader looks often while rows come, and
asks to be woken only when they have become rare. While it sleeps it goes on looking, ever more seldom: a transaction
that saw it awake may commit, silently, at any later time. Looking is the truth; a notification only makes it quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.clock import Clock
from fencepost.message import Position, Stored

FIRST_WAIT_S = 0.002
LOOKS_AWAKE = 5
"""Looks without a new row (after 2, 4, 8, 16 and 32 ms) before the reader sleeps."""

BUSY_ROWS = 100
BUSY_WINDOW_S = 0.5
"""So many new rows in so short a time wake the reader for good: to notify each time would cost the writers more."""

_DOUBLINGS_MAX = 40


class Watch:
    """The state of one reader of one lane.

    ``asleep`` is what the writers were told; None where only an earlier reader can have told them something.
    """

    def __init__(self, clock: Clock) -> None:
        self.asleep: bool | None = None
        self._clock = clock
        self._looks = 0
        self._bottom: tuple[int, Position, Position] | None = None
        self._highest: Any = None  # a Position
        self._since = clock.monotonic()
        self._rows = 0

    def found(self, rows: Sequence[Stored], after: Position | None) -> None:
        """Take note of what a look brought. Rows that still stand there (they wait for something) are not new."""
        if not self._is_new(rows, after):
            return
        if not self.asleep:
            self._looks = 0
        now = self._clock.monotonic()
        if now - self._since > BUSY_WINDOW_S:
            self._since, self._rows = now, 0
        self._rows += len(rows)

    @property
    def should_sleep(self) -> bool:
        """Whether it is time to ask the writers for notifications."""
        return not self.asleep and self._looks >= LOOKS_AWAKE

    @property
    def should_wake(self) -> bool:
        """Whether it is time to spare the writers the notifications."""
        return self.asleep is not False and self._rows >= BUSY_ROWS

    def told(self, *, asleep: bool) -> None:
        """The writers have been told."""
        self.asleep = asleep
        self._looks = LOOKS_AWAKE if asleep else 0
        self._rows = 0

    def next_wait_s(self, timeout_s: float) -> float:
        """How long to wait this time: twice as long as last time, at most ``timeout_s``."""
        wait_s: float = FIRST_WAIT_S * 2 ** min(self._looks, _DOUBLINGS_MAX)
        self._looks += 1
        return min(wait_s, timeout_s)

    def _is_new(self, rows: Sequence[Stored], after: Position | None) -> bool:
        bottom = (len(rows), rows[0].position, rows[-1].position) if rows else None
        new = bool(rows) and after is None and bottom != self._bottom
        if after is None:
            self._bottom = bottom
        if rows and (self._highest is None or rows[-1].position > self._highest):
            self._highest = rows[-1].position
            new = True
        return new
