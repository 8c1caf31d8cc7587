"""Rules of terms: one owner at a time, tokens that only grow, renew and release of exactly one term."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fencepost.ports import LeaseStore, Term
from fencepost.testing.on_election import OnElection
from fencepost.testing.places import ElectionPlace

TTL_S = 30.0
"""Long enough that nothing ends by itself while a test runs."""

MANY = 16


async def acquired(
    place: ElectionPlace, store: LeaseStore, owner: str = "a", ttl_s: float = TTL_S, *, name: str = ""
) -> Term:
    """A term that must be granted: of the test's own lease unless another one is named."""
    wanted = name or place.name
    term = await store.acquire(wanted, owner, ttl_s)
    assert term is not None
    assert (term.name, term.owner) == (wanted, owner)
    return term


class TermRules(OnElection):
    """Who has the lease has it alone, and exactly for his term."""

    async def test_one_of_many_wins(self, place: ElectionPlace) -> None:
        """A1, F4, F5: all of them try for the first time, at once."""
        stores = [await place.store() for _ in range(MANY)]
        tries = [store.acquire(place.name, f"owner-{i}", TTL_S) for i, store in enumerate(stores)]
        terms = [term for term in await asyncio.gather(*tries) if term is not None]
        assert len(terms) == 1
        holder = await stores[0].holder(place.name)
        assert holder is not None
        assert (holder.owner, holder.token) == (terms[0].owner, terms[0].token)

    async def test_one_of_many_wins_after_a_release(self, place: ElectionPlace) -> None:
        stores = [await place.store() for _ in range(MANY)]
        last = await acquired(place, stores[0])
        await stores[0].release(last)
        tries = [store.acquire(place.name, f"owner-{i}", TTL_S) for i, store in enumerate(stores)]
        terms = [term for term in await asyncio.gather(*tries) if term is not None]
        assert len(terms) == 1
        assert terms[0].token > last.token

    async def test_another_owner_is_refused_while_the_term_lasts(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        await acquired(place, store, "a")
        for _ in range(3):
            assert await other.acquire(place.name, "b", TTL_S) is None
        assert await store.acquire(place.name, "b", TTL_S) is None

    async def test_a_rehearsal_changes_nothing(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        await other.rehearse()
        assert await other.holder(place.name) is None
        term = await acquired(place, store)
        await other.rehearse()
        holder = await other.holder(place.name)
        assert holder is not None
        assert (holder.owner, holder.token) == (term.owner, term.token)
        assert await store.renew(term, TTL_S)

    async def test_tokens_only_grow(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        tokens = []
        for turn in range(6):
            term = await acquired(place, (store, other)[turn % 2], f"owner-{turn % 3}")
            tokens.append(term.token)
            await (store, other)[turn % 2].release(term)
        assert tokens == sorted(set(tokens))
        assert tokens[0] > 0

    async def test_a_term_after_a_release_is_not_early(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        first = await acquired(place, store)
        await store.release(first)
        assert not first.early
        assert not (await acquired(place, other, "b")).early

    async def test_renewing_the_current_term_succeeds(self, place: ElectionPlace) -> None:
        store = await place.store()
        term = await acquired(place, store)
        for _ in range(3):
            assert await store.renew(term, TTL_S) is True
        holder = await store.holder(place.name)
        assert holder is not None
        assert holder.token == term.token

    async def test_renewing_a_term_that_is_over_fails_for_good(self, place: ElectionPlace) -> None:
        """F1"""
        store, other = await place.store(), await place.store()
        first = await acquired(place, store)
        await store.release(first)
        assert await store.renew(first, TTL_S) is False
        second = await acquired(place, other, "b")
        assert await store.renew(first, TTL_S) is False
        assert await other.renew(second, TTL_S) is True

    async def test_renewing_an_earlier_term_of_the_same_owner_fails(self, place: ElectionPlace) -> None:
        store = await place.store()
        first = await acquired(place, store)
        await store.release(first)
        second = await acquired(place, store)
        assert await store.renew(first, TTL_S) is False
        assert await store.renew(second, TTL_S) is True

    async def test_renewing_names_the_exact_owner_and_token(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        term = await acquired(place, store)
        assert await other.renew(replace(term, token=term.token + 1), TTL_S) is False
        assert await other.renew(replace(term, owner="b"), TTL_S) is False
        assert await other.renew(replace(term, name=f"{place.name}.1"), TTL_S) is False
        assert await store.renew(term, TTL_S) is True

    async def test_releasing_a_term_that_is_over_does_nothing(self, place: ElectionPlace) -> None:
        store, other, third = await place.store(), await place.store(), await place.store()
        first = await acquired(place, store)
        await store.release(first)
        await store.release(first)
        second = await acquired(place, other, "b")
        await store.release(first)
        await third.release(replace(second, token=second.token + 1))
        await third.release(replace(second, owner="c"))
        assert await third.acquire(place.name, "c", TTL_S) is None
        assert await other.renew(second, TTL_S) is True

    async def test_a_released_lease_is_free_at_once(self, place: ElectionPlace) -> None:
        """D11"""
        store, other = await place.store(), await place.store()
        first = await acquired(place, store)
        assert await other.acquire(place.name, "b", TTL_S) is None
        await store.release(first)
        second = await acquired(place, other, "b")
        assert second.token > first.token

    async def test_names_do_not_touch_each_other(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        names = [f"{place.name}{end}" for end in (".1", ".11", ".1 ", "-1", "a", "A", "x" * 180)]
        terms = [await acquired(place, store, "a", name=name) for name in names]
        for name, term in zip(names, terms, strict=True):
            assert await other.acquire(name, "b", TTL_S) is None
            await store.release(term)
            assert (await acquired(place, other, "b", name=name)).token > term.token

    async def test_the_holder_is_shown(self, place: ElectionPlace) -> None:
        store, other = await place.store(), await place.store()
        assert await other.holder(place.name) is None
        term = await acquired(place, store)
        holder = await other.holder(place.name)
        assert holder is not None
        assert (holder.owner, holder.token) == (term.owner, term.token)
        assert TTL_S - 10 < holder.remaining_s <= TTL_S
        assert 0 <= holder.held_s < 10
        await store.release(term)
        assert await other.holder(place.name) is None

    async def test_the_store_says_what_a_token_fences(self, place: ElectionPlace) -> None:
        assert (await place.store()).fences.strip()
