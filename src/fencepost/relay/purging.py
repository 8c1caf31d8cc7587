"""Settled rows that stay are removed once they are old enough: a few at a time, with a pause after each few.

It goes on beside the work of a lane, on a connection of its own, and whatever becomes of it does not touch the lane.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from fencepost.clock import Clock
from fencepost.errors import FixError, RetryError
from fencepost.events import NotPurged, Observer, Purged
from fencepost.ports import Purger, Purging
from fencepost.relay.retry import Backoff

BATCH = 1_000
"""Rows of one transaction."""

LOOK_AGAIN_S = 60.0
"""How late a row may be purged that has become old enough."""

_PAUSE_MIN_S = 0.02
_FIRST_LOOK_S = 1.0  # a relay that has just taken over has better things to do
_LOOKS = 10  # in one retention, where that is short


async def batches(purger: Purger, older_than_s: float, limit: int, clock: Clock) -> AsyncIterator[int]:
    """Remove what is old enough; the number of each few rows, the last one below ``limit``.

    The pause after each is as long as it took, so that at least half of the time is left to everybody else.
    """
    removed = limit
    while removed >= limit:
        began = clock.monotonic()
        removed = await purger.purge(older_than_s, limit)
        yield removed
        if removed >= limit:
            await clock.sleep(max(_PAUSE_MIN_S, clock.monotonic() - began))


class Purge:
    """Removes what was settled longer than ``retention_s`` ago, for as long as ``run`` runs."""

    def __init__(self, source: Purging, lane: str, retention_s: float, observer: Observer, clock: Clock) -> None:
        self._source, self._lane, self._retention_s = source, lane, retention_s
        self._observer, self._clock = observer, clock
        self._every_s = min(LOOK_AGAIN_S, max(_FIRST_LOOK_S, retention_s / _LOOKS))
        self._backoff = Backoff(_FIRST_LOOK_S, LOOK_AGAIN_S, clock)

    async def run(self) -> None:
        """Until it is cancelled. Errors are told, and it tries again."""
        failures, delay_s = 0, min(_FIRST_LOOK_S, self._every_s)
        while True:
            await self._clock.sleep(delay_s)
            try:
                await self._look()
            except (RetryError, FixError) as error:
                failures += 1
                delay_s = LOOK_AGAIN_S if isinstance(error, FixError) else self._backoff.delay_s(failures)
                self._observer(NotPurged(lane=self._lane, cause=str(error), delay_s=delay_s))
            else:
                failures, delay_s = 0, self._every_s

    async def _look(self) -> None:
        purger = await self._source.purger()
        rows = 0
        try:
            async for removed in batches(purger, self._retention_s, BATCH, self._clock):
                rows += removed
        finally:
            await purger.close()
            if rows:
                self._observer(Purged(lane=self._lane, rows=rows))
