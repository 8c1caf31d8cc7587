"""Brokers for as long as a block lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from fencepost.ports import Broker, Handoff, Lane
from tests.brokers.rows import term

B = TypeVar("B", bound=Broker)


@asynccontextmanager
async def opened(broker: B) -> AsyncIterator[B]:
    """It is open."""
    try:
        await broker.open()
        yield broker
    finally:
        await broker.close()


@asynccontextmanager
async def owning(broker: Broker, lane: Lane, token: int = 1) -> AsyncIterator[Handoff]:
    """The right to publish, of a broker of its own."""
    async with opened(broker):
        handoff = await broker.take_over(lane, term(token, f"relay-{token}"))
        yield handoff
        await handoff.close()
