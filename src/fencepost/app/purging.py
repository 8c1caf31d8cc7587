"""Removing settled rows that stay, by hand: those that are old enough and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fencepost.app import build
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.config import Config
from fencepost.errors import ConfigurationError
from fencepost.ports import Purger, Purging
from fencepost.relay.purging import BATCH, batches
from fencepost.sql.source import must_be_kept


async def purge(
    config: Config,
    older_than_s: float,
    *,
    batch: int = BATCH,
    progress: Callable[[int], None] = lambda _: None,
    clock: Clock = SYSTEM_CLOCK,
) -> int:
    """Remove what was settled longer ago than this; how many rows. ``progress`` is told the number so far.

    Each ``batch`` rows are a transaction of their own, so an interrupted purge keeps what it has done. Raises
    ConfigurationError where settled rows are deleted at once, or the database's own error.
    """
    rows = 0
    async with _purger(config, clock) as purger:
        async for removed in batches(purger, older_than_s, batch, clock):
            rows += removed
            progress(rows)
    return rows


async def purgeable(config: Config, older_than_s: float) -> int:
    """How many rows ``purge`` would remove now. Raises what it raises."""
    async with _purger(config, SYSTEM_CLOCK) as purger:
        return await purger.count(older_than_s)


@asynccontextmanager
async def _purger(config: Config, clock: Clock) -> AsyncIterator[Purger]:
    must_be_kept(build.database(config))
    source = build.source(config, clock)
    if not isinstance(source, Purging):
        raise ConfigurationError("this database keeps no settled rows", remedy="there is nothing to purge")
    purger = await source.purger()
    try:
        yield purger
    finally:
        await purger.close()
