"""The contract of a lease store, in memory and on real databases."""

import asyncio
import time
from datetime import datetime

import pytest

from fencepost.clock import SystemClock
from fencepost.elections.sql import SqlLeaseStore
from fencepost.ports import LeaseStore, Term
from tests.leases.places import Place

LONG_S = 30.0


class AwayClock(SystemClock):
    """Of a machine whose wall clock nobody should look at, and that was started at another time."""

    def now(self) -> datetime:
        raise AssertionError("the store's clock judges")

    def monotonic(self) -> float:
        return super().monotonic() + 600.0


async def acquired(store: LeaseStore, owner: str, ttl_s: float = LONG_S, name: str = "orders.0") -> Term:
    term = await store.acquire(name, owner, ttl_s)
    assert term is not None
    return term


async def test_one_owner_at_a_time(place: Place) -> None:
    one, two = await place.sessions(2)
    term = await acquired(one, "one")
    assert await two.acquire("orders.0", "two", LONG_S) is None
    assert term == Term("orders.0", "one", 1)
    assert (await acquired(two, "two", name="orders.1")).token == 1


async def test_fifty_first_time_acquirers_have_one_winner_and_no_error(place: Place) -> None:
    """F4."""
    stores = await place.sessions(50, timeout_s=30.0)
    terms = await asyncio.gather(*[s.acquire("new", f"owner {i}", LONG_S) for i, s in enumerate(stores)])
    assert [t.token for t in terms if t is not None] == [1]


async def test_two_tries_at_once_have_one_winner(place: Place) -> None:
    """F5: also where the lease exists and is free."""
    one, two = await place.sessions(2)
    for round_ in range(20):
        terms = await asyncio.gather(one.acquire("busy", "one", LONG_S), two.acquire("busy", "two", LONG_S))
        won = [t for t in terms if t is not None]
        assert [t.token for t in won] == [round_ + 1]
        await (one if won[0].owner == "one" else two).release(won[0])


async def test_the_token_only_grows(place: Place) -> None:
    """Over release, expiry, another owner, and when the same owner acquires again."""
    one, two = await place.sessions(2)
    tokens = []
    for store, owner in ((one, "one"), (one, "one"), (two, "two"), (one, "one"), (one, "one")):
        term = await acquired(store, owner)
        tokens.append(term.token)
        if owner == "two" or len(tokens) == 2:
            await store.release(term)
    short = await acquired(one, "one", ttl_s=0.3)
    await asyncio.sleep(0.35)
    tokens += [short.token, (await acquired(two, "two")).token]
    assert tokens == [1, 2, 3, 4, 5, 6, 7]


async def test_a_lease_that_is_not_renewed_ends(place: Place) -> None:
    one, two = await place.sessions(2)
    term = await acquired(one, "one", ttl_s=0.8)
    assert await two.acquire("orders.0", "two", LONG_S) is None
    await asyncio.sleep(0.85)
    next_term = await acquired(two, "two")
    assert not next_term.early
    assert not await one.renew(term, LONG_S)
    assert await two.renew(next_term, LONG_S)


async def test_clocks_that_are_apart(place: Place) -> None:
    """F3: who leads, and for how long, is the same for all."""
    one, two = await place.sessions(2)
    away = place.store(clock=AwayClock())
    await away.open()
    term = await acquired(away, "away", ttl_s=1.5)
    assert await two.acquire("orders.0", "two", LONG_S) is None
    holder = await two.holder("orders.0")
    assert holder is not None
    assert 0.5 < holder.remaining_s <= 1.5
    await asyncio.sleep(1.0)
    assert await away.renew(term, 1.5)
    await two.wait("orders.0", LONG_S)
    assert await acquired(one, "one") == Term("orders.0", "one", 2)
    assert await away.acquire("orders.0", "away", LONG_S) is None


async def test_a_renewal_extends(place: Place) -> None:
    one, two = await place.sessions(2)
    term = await acquired(one, "one", ttl_s=1.0)
    for _ in range(3):
        await asyncio.sleep(0.5)
        assert await one.renew(term, 1.0)
        assert await two.acquire("orders.0", "two", LONG_S) is None


@pytest.mark.parametrize(
    "wrong",
    [Term("orders.0", "one", 2), Term("orders.0", "other", 1), Term("orders.1", "one", 1)],
    ids=["token", "owner", "name"],
)
async def test_renew_and_release_match_name_owner_and_token(place: Place, wrong: Term) -> None:
    one, two = await place.sessions(2)
    term = await acquired(one, "one")
    assert not await two.renew(wrong, LONG_S)
    await two.release(wrong)
    assert await two.acquire("orders.0", "two", LONG_S) is None
    assert await one.renew(term, LONG_S)


async def test_a_leader_whose_row_was_taken_is_told_at_its_next_renewal(place: Place) -> None:
    """F1."""
    one, two = await place.sessions(2)
    term = await acquired(one, "one", ttl_s=0.3)
    await asyncio.sleep(0.35)
    stolen = await acquired(two, "two")
    assert not await one.renew(term, LONG_S)
    await one.release(term)
    assert await two.renew(stolen, LONG_S)


async def test_the_holder_is_who_leads(place: Place) -> None:
    one, two = await place.sessions(2)
    assert await two.holder("orders.0") is None
    term = await acquired(one, "one", ttl_s=10.0)
    holder = await two.holder("orders.0")
    assert holder is not None
    assert (holder.owner, holder.token) == ("one", 1)
    assert 9.0 < holder.remaining_s <= 10.0
    assert 0 <= holder.held_s < 1.0
    await one.release(term)
    assert await two.holder("orders.0") is None
    await acquired(one, "one", ttl_s=0.1)
    await asyncio.sleep(0.2)
    ended = await two.holder("orders.0")
    assert ended is not None
    assert ended.remaining_s <= 0


async def test_a_release_wakes_who_waits(place: Place) -> None:
    one, two = await place.sessions(2)
    term = await acquired(one, "one")
    waiting = asyncio.ensure_future(two.wait("orders.0", LONG_S))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    started = time.monotonic()
    await one.release(term)
    await waiting
    assert time.monotonic() - started < 0.3
    assert (await acquired(two, "two")).token == 2


async def test_waiting_ends_with_the_lease(place: Place) -> None:
    one, two = await place.sessions(2)
    started = time.monotonic()
    await acquired(one, "one", ttl_s=1.0)
    await two.wait("orders.0", LONG_S)
    assert 0.9 < time.monotonic() - started < 1.5
    assert (await acquired(two, "two")).token == 2


async def test_waiting_ends_at_its_timeout(place: Place) -> None:
    one, two = await place.sessions(2)
    await acquired(one, "one")
    started = time.monotonic()
    await two.wait("orders.0", 0.4)
    assert 0.35 < time.monotonic() - started < 0.9


async def test_nobody_waits_for_a_lease_that_nobody_has(place: Place) -> None:
    one, two = await place.sessions(2)
    started = time.monotonic()
    await two.wait("orders.0", LONG_S)
    await one.release(await acquired(one, "one"))
    await two.wait("orders.0", LONG_S)
    assert time.monotonic() - started < 2.0


async def test_a_session_that_ended_is_replaced_early(place: Place) -> None:
    """To others a store that was closed looks like a process that was killed."""
    one, two = await place.sessions(2)
    await acquired(one, "one")
    waiting = asyncio.ensure_future(two.wait("orders.0", LONG_S))
    await asyncio.sleep(0.3)
    started = time.monotonic()
    await one.close()
    await waiting
    term = await acquired(two, "two")
    assert time.monotonic() - started < 1.6
    assert term.early
    assert term.token == 2


async def test_without_session_evidence_only_the_clock_decides(place: Place) -> None:
    one = place.store(settings={"session_evidence": "off"})
    (two,) = await place.sessions(1)
    await acquired(one, "one", ttl_s=2.0)
    await one.close()
    started = time.monotonic()
    await two.wait("orders.0", 1.4)
    assert time.monotonic() - started > 1.3
    assert await two.acquire("orders.0", "two", LONG_S) is None
    await two.wait("orders.0", LONG_S)
    assert not (await acquired(two, "two")).early


async def test_a_candidate_without_session_evidence_does_not_probe(place: Place) -> None:
    one = place.store()
    two = place.store(settings={"session_evidence": "off"})
    await acquired(one, "one", ttl_s=2.0)
    await one.close()
    if place.kind != "memory":  # there the place itself knows who is gone
        assert await two.acquire("orders.0", "two", LONG_S) is None


async def test_a_store_that_was_closed_can_be_opened_again(place: Place) -> None:
    store = place.store()
    first = await acquired(store, "one")
    await store.close()
    await store.close()
    await store.open()
    assert await store.renew(first, LONG_S)


async def test_several_leases_through_one_store(place: Place) -> None:
    """As a relay with several lanes has them."""
    one, two = await place.sessions(2)
    terms = await asyncio.gather(*[acquired(one, "one", name=f"orders.{i}") for i in range(8)])
    assert all(await asyncio.gather(*[one.renew(t, LONG_S) for t in terms]))
    await asyncio.gather(*[one.release(t) for t in terms[:4]])
    taken = await asyncio.gather(*[two.acquire(f"orders.{i}", "two", LONG_S) for i in range(8)])
    assert [t is not None for t in taken] == [True] * 4 + [False] * 4


async def test_a_rehearsal_changes_nothing(sql_place: Place) -> None:
    one, two = await sql_place.sessions(2)
    for store in (one, two):
        assert isinstance(store, SqlLeaseStore)
        await store.rehearse()
    assert await one.holder("orders.0") is None
    term = await acquired(one, "one")
    assert term.token == 1
    assert isinstance(two, SqlLeaseStore)
    await two.rehearse()
    assert await one.renew(term, LONG_S)
