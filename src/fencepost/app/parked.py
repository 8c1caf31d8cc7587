"""The parked messages of a configured outbox, for an operator: listed, shown, retried, discarded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from fencepost.app import build
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.config import Config
from fencepost.errors import ConfigurationError, Contention
from fencepost.plugins import name_of
from fencepost.ports import ParkedFilter, ParkedMessage, ParkedStore, Parking
from fencepost.ports.parking import PARKED_BATCH
from fencepost.relay.retry import Backoff

Act = Callable[[Sequence[ParkedMessage]], Awaitable[Sequence[str]]]
"""``ParkedStore.retry`` or ``discard``."""

_TRIES = 8
_PAUSE_S = (0.05, 2.0)


class WorkedOff(NamedTuple):
    """How far it is: messages that were done, and those that somebody else had taken in the meantime."""

    done: int
    gone: int


@asynccontextmanager
async def parked(config: Config, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[ParkedStore]:
    """A connection to them. Raises ConfigurationError where the plug-in offers none, or the database's own error."""
    source = build.source(config, clock)
    if not isinstance(source, Parking):
        raise ConfigurationError(
            f"the plug-in of {name_of('database', config.database.url)} lets nobody look after parked messages",
            remedy="look at them with the database's own tools",
        )
    store = await source.parked()
    try:
        yield store
    finally:
        await store.close()


async def work_off_parked(
    store: ParkedStore, which: ParkedFilter, act: Act, *, limit: int | None = None, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[WorkedOff]:
    """Retry, or discard, all that a filter chooses now, the oldest first, at most ``limit``. Tells how far it is.

    Some at a time, each some whole or not at all, and as many as there are at the beginning: a message that is parked
    again meanwhile is not retried for ever. Raises the database's own error; what was done before it stays done, and
    the same call does the rest.
    """
    left = await store.count(which)
    left = left if limit is None else min(left, limit)
    done = gone = 0
    after: ParkedMessage | None = None
    while left > 0 and (page := await store.page(which, min(left, PARKED_BATCH), after)):
        moved = len(await _patiently(act, page, clock))
        done, gone = done + moved, gone + len(page) - moved
        left, after = left - len(page), page[-1]
        yield WorkedOff(done, gone)


async def _patiently(act: Act, page: Sequence[ParkedMessage], clock: Clock) -> Sequence[str]:
    """Again, after a pause, where somebody else was in the way: then nothing has happened."""
    backoff = Backoff(*_PAUSE_S, clock)
    for tried in range(1, _TRIES):
        try:
            return await act(page)
        except Contention:
            await clock.sleep(backoff.delay_s(tried))
    return await act(page)
