"""Many parked messages are retried or given up: some at a time, each some whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

from fencepost.clock import Clock
from fencepost.errors import Contention
from fencepost.ports import ParkedFilter, ParkedMessage, ParkedStore
from fencepost.ports.parking import PARKED_BATCH
from fencepost.relay.retry import Backoff

Act = Callable[[Sequence[ParkedMessage]], Awaitable[Sequence[str]]]
"""``ParkedStore.retry`` or ``discard``."""

_TRIES = 8
_PAUSE_S = (0.05, 2.0)


class Progress(NamedTuple):
    """How far it is: messages that were done, and those that somebody else had taken in the meantime."""

    done: int
    gone: int


async def work_off(
    store: ParkedStore, which: ParkedFilter, act: Act, clock: Clock, *, limit: int | None = None
) -> AsyncIterator[Progress]:
    """Retry, or discard, all that a filter chooses now, the oldest first, at most ``limit``. Tells how far it is.

    As many as there are at the beginning: a message that is parked again meanwhile is not retried for ever. When it is
    interrupted, what is done is done, and the same call does the rest.
    """
    left = await store.count(which)
    left = left if limit is None else min(left, limit)
    done = gone = 0
    after: ParkedMessage | None = None
    while left > 0 and (page := await store.page(which, min(left, PARKED_BATCH), after)):
        moved = len(await _patiently(act, page, clock))
        done, gone = done + moved, gone + len(page) - moved
        left, after = left - len(page), page[-1]
        yield Progress(done, gone)


async def _patiently(act: Act, page: Sequence[ParkedMessage], clock: Clock) -> Sequence[str]:
    """Again, after a pause, where somebody else was in the way: then nothing has happened."""
    backoff = Backoff(*_PAUSE_S, clock)
    for tried in range(1, _TRIES):
        try:
            return await act(page)
        except Contention:
            await clock.sleep(backoff.delay_s(tried))
    return await act(page)
