"""The parked messages of a configured outbox, for an operator: listed, shown, retried, discarded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from fencepost.app import build
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.config import Config
from fencepost.errors import ConfigurationError
from fencepost.plugins import name_of
from fencepost.ports import ParkedFilter, ParkedMessage, ParkedStore, Parking
from fencepost.relay.parking import Progress, work_off


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
    store: ParkedStore,
    which: ParkedFilter,
    action: Literal["retry", "discard"],
    *,
    keep_versions: bool = False,
    limit: int | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    clock: Clock = SYSTEM_CLOCK,
) -> Progress:
    """Retry or discard what the filter chooses, some messages at a time; what became of them in all.

    Raises the database's own error; what was done before it stays done.
    """
    reached = Progress(0, 0)

    async def act(rows: Sequence[ParkedMessage]) -> Sequence[str]:
        return await (store.discard(rows) if action == "discard" else store.retry(rows, keep_versions=keep_versions))

    async for reached in work_off(store, which, act, clock, limit=limit):
        progress(reached)
    return reached
