"""Rules of expiry: by the store's own clock, never before its time, and at last."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fencepost.clock import SYSTEM_CLOCK, SystemClock
from fencepost.errors import FencepostError
from fencepost.ports import LeaseStore, Term
from fencepost.testing.elections.terms import TTL_S, acquired
from fencepost.testing.on_election import OnElection
from fencepost.testing.places import ElectionPlace

SHORT_S = 1.0
LATE_S = 2.0
"""How long after its end a lease may still be found taken."""


class ShiftedClock(SystemClock):
    """A machine whose clock is wrong."""

    def __init__(self, by: timedelta) -> None:
        self._by = by

    def now(self) -> datetime:
        return super().now() + self._by


async def first_term(place: ElectionPlace, store: LeaseStore, owner: str, within_s: float) -> tuple[Term, float]:
    """Try until the lease is granted; the term, and after how many seconds."""
    started = SYSTEM_CLOCK.monotonic()
    while SYSTEM_CLOCK.monotonic() - started < within_s:
        term = await store.acquire(place.name, owner, TTL_S)
        if term is not None:
            return term, SYSTEM_CLOCK.monotonic() - started
        await SYSTEM_CLOCK.sleep(0.02)
    raise AssertionError(f"not granted within {within_s:g} s")


class ExpiringRules(OnElection):
    """A lease that is not renewed ends, one that is renewed does not."""

    async def test_a_lease_that_is_not_renewed_ends(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        started = SYSTEM_CLOCK.monotonic()
        first = await acquired(place, store, "a", SHORT_S)
        second, _ = await first_term(place, other, "b", SHORT_S + LATE_S)
        assert SYSTEM_CLOCK.monotonic() - started >= SHORT_S - 0.05  # its owner's connection is there: no earlier
        assert second.token > first.token
        assert not second.early
        assert await store.renew(first, TTL_S) is False
        await store.release(first)
        assert await other.renew(second, TTL_S) is True

    async def test_a_lease_that_is_renewed_lasts(self, place: ElectionPlace) -> None:
        """A9"""
        store, other = await place.store(), await place.store()
        term = await acquired(place, store, "a", SHORT_S)
        for _ in range(5):
            assert await store.renew(term, SHORT_S) is True
            assert await other.acquire(place.name, "b", SHORT_S) is None
            await SYSTEM_CLOCK.sleep(SHORT_S / 3)
        assert await other.acquire(place.name, "b", SHORT_S) is None

    async def test_a_renewal_sets_the_time_that_is_left(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        term = await acquired(place, store, "a", SHORT_S)
        assert await store.renew(term, TTL_S) is True
        await SYSTEM_CLOCK.sleep(SHORT_S + 0.2)
        assert await other.acquire(place.name, "b", SHORT_S) is None
        holder = await other.holder(place.name)
        assert holder is not None
        assert holder.remaining_s > SHORT_S
        assert holder.held_s > SHORT_S

    async def test_a_lease_that_has_ended_is_not_renewed_into_another_term(self, place: ElectionPlace) -> None:
        """F6: whoever slept through the end finds it over as soon as somebody else has it."""
        store, other = await place.store(), await place.store()
        first = await acquired(place, store, "a", SHORT_S)
        await first_term(place, other, "b", SHORT_S + LATE_S)
        for _ in range(2):
            assert await store.renew(first, TTL_S) is False
        assert await store.acquire(place.name, "a", TTL_S) is None

    async def test_an_ended_lease_shows_that_nothing_is_left(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        await acquired(place, store, "a", SHORT_S)
        await SYSTEM_CLOCK.sleep(SHORT_S + 0.2)
        holder = await other.holder(place.name)
        assert holder is not None
        assert holder.remaining_s <= 0

    @pytest.mark.parametrize("minutes", [-10, 10])
    async def test_the_clocks_of_the_machines_do_not_matter(self, place: ElectionPlace, minutes: int) -> None:
        """F3"""
        store, other = await place.store(), await place.store(ShiftedClock(timedelta(minutes=minutes)))
        term = await acquired(place, store, "a", TTL_S)
        assert await other.acquire(place.name, "b", TTL_S) is None
        holder = await other.holder(place.name)
        assert holder is not None
        assert 0 < holder.remaining_s <= TTL_S
        await store.release(term)
        await acquired(place, other, "b", SHORT_S)
        assert await store.acquire(place.name, "a", TTL_S) is None
        await first_term(place, store, "a", SHORT_S + LATE_S)

    async def test_an_owner_that_is_gone_is_replaced_at_the_latest_when_its_lease_ends(
        self, place: ElectionPlace
    ) -> None:
        """D1: sooner where the store sees that its session is gone, and then the term says so."""
        store, other = await place.store(), await place.store()
        first = await acquired(place, store, "a", 3 * SHORT_S)
        await store.close()
        second, after_s = await first_term(place, other, "b", 3 * SHORT_S + LATE_S)
        assert second.token > first.token
        assert second.early is (after_s < 3 * SHORT_S - 0.5)
        assert await (await place.store()).renew(first, TTL_S) is False

    async def test_a_closed_store_grants_nothing(self, place: ElectionPlace) -> None:
        store = await place.store()
        await store.close()
        await store.close()
        with pytest.raises(FencepostError):
            await store.acquire(place.name, "a", TTL_S)
        assert await (await place.store()).holder(place.name) is None

    async def test_a_closed_store_can_be_opened_again(self, place: ElectionPlace) -> None:
        """After a fault of the connection the owner opens the store again."""
        store = await place.store()
        first = await acquired(place, store, "a")
        await store.release(first)
        await store.close()
        await store.open()
        assert (await acquired(place, store, "a")).token > first.token
