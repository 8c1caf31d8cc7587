"""Rules of waiting for a lease: a release wakes, a timeout ends the wait."""

from __future__ import annotations

import asyncio

from fencepost.clock import SYSTEM_CLOCK
from fencepost.ports import LeaseStore
from fencepost.testing.elections.terms import acquired
from fencepost.testing.on_election import OnElection
from fencepost.testing.places import ElectionPlace

WAKE_S = 1.0
"""D11: a standby is active in under a second."""


async def waited(place: ElectionPlace, store: LeaseStore, timeout_s: float) -> float:
    """How long a wait lasted, in seconds."""
    started = SYSTEM_CLOCK.monotonic()
    await store.wait(place.name, timeout_s)
    return SYSTEM_CLOCK.monotonic() - started


class WakingRules(OnElection):
    """Who waits is told when the lease may be free; asking again is his own business."""

    async def test_a_release_lets_a_standby_in_at_once(self, place: ElectionPlace) -> None:
        """D11"""
        store, other = await place.store(), await place.store()
        for _ in range(2):
            term = await acquired(place, store, "a")
            standby = asyncio.create_task(_stand_by(place, other))
            await SYSTEM_CLOCK.sleep(0.3)
            started = SYSTEM_CLOCK.monotonic()
            await store.release(term)
            ended = await asyncio.wait_for(standby, 5 * WAKE_S)
            assert ended - started < WAKE_S

    async def test_without_a_release_the_timeout_ends_the_wait(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        await acquired(place, store, "a")
        for timeout_s in (0.0, 0.05, 0.5):
            assert await waited(place, other, timeout_s) < timeout_s + WAKE_S

    async def test_a_wait_mostly_lasts(self, place: ElectionPlace) -> None:
        """D10: it may return early, but a standby must not spin."""
        store, other = await place.store(), await place.store()
        await acquired(place, store, "a")
        started, rounds = SYSTEM_CLOCK.monotonic(), 0
        while SYSTEM_CLOCK.monotonic() - started < 1.0:
            await other.wait(place.name, 1.0)
            rounds += 1
        assert rounds <= 12

    async def test_a_cancelled_wait_leaves_the_store_in_order(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        term = await acquired(place, store, "a")
        waiting = asyncio.ensure_future(other.wait(place.name, 60.0))
        await SYSTEM_CLOCK.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await other.acquire(place.name, "b", 5.0) is None
        await store.release(term)
        await acquired(place, other, "b")


async def _stand_by(place: ElectionPlace, store: LeaseStore) -> float:
    """Acquire and release as soon as possible; when it was granted, by the monotonic clock."""
    while (term := await store.acquire(place.name, "b", 30.0)) is None:
        await store.wait(place.name, 10.0)
    granted = SYSTEM_CLOCK.monotonic()
    await store.release(term)
    return granted
