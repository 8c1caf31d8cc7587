"""Rules of reading: what is pending, and in which order."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from fencepost.testing.messages import message
from fencepost.testing.on_database import Adding, OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace

MANY = 10_000
PAGES = 10


class _RolledBack(Exception):
    """What the rules raise to roll a transaction back."""


class ReadingRules(OnDatabase):
    """Everything that is committed is read, lowest position first, and nothing else."""

    async def test_an_empty_outbox_has_nothing_pending(self, place: OutboxPlace) -> None:
        session = await place.session()
        assert list(await session.pending(WHOLE, 10)) == []

    async def test_pending_messages_come_in_the_order_in_which_they_were_added(self, place: OutboxPlace) -> None:
        added = await place.fill(20) + await place.fill(1) + await place.fill(20)
        found = await (await place.session()).pending(WHOLE, 100)
        assert [m.id for m in found] == [m.id for m in added]
        assert all(a.position < b.position for a, b in pairwise(found))  # type: ignore[operator]

    async def test_pending_gives_the_lowest_positions_up_to_the_limit(self, place: OutboxPlace) -> None:
        added = await place.fill(10)
        session = await place.session()
        for limit in (1, 3, 9, 10, 11):
            assert [m.id for m in await session.pending(WHOLE, limit)] == [m.id for m in added[:limit]]

    async def test_reading_takes_nothing_away(self, place: OutboxPlace) -> None:
        added = await place.fill(5)
        session, other = await place.session(), await place.session()
        for reader in (session, session, other):
            assert [m.id for m in await reader.pending(WHOLE, 10)] == [m.id for m in added]

    async def test_after_a_position_only_those_above_it_are_given(self, place: OutboxPlace) -> None:
        added = await place.fill(10)
        session = await place.session()
        found = await session.pending(WHOLE, 4)
        rest = await session.pending(WHOLE, 4, found[-1].position)
        last = await session.pending(WHOLE, 4, rest[-1].position)
        assert [m.id for m in (*found, *rest, *last)] == [m.id for m in added]
        assert list(await session.pending(WHOLE, 4, last[-1].position)) == []

    async def test_below_a_position_are_the_positions_that_wait(self, place: OutboxPlace) -> None:
        await place.fill(10)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        positions = [m.position for m in found]
        assert list(await session.below(WHOLE, positions[5], 100)) == positions[:6]
        assert list(await session.below(WHOLE, positions[5], 4)) == positions[:4]
        await session.settle([(m.position, m.id) for m in found[1:4]])
        await session.failed([(found[4], "no")])
        assert list(await session.below(WHOLE, positions[5], 100)) == [positions[0], *positions[4:6]]

    async def test_below_a_position_shows_what_has_committed_late(self, place: OutboxPlace, add_beside: Adding) -> None:
        session = await place.session()
        async with place.writer.transaction() as transaction:
            await transaction.add(message("late"))
            await add_beside(message("early"))
            (early,) = await session.pending(WHOLE, 10)
            assert list(await session.below(WHOLE, early.position, 10)) == [early.position]
        below = list(await session.below(WHOLE, early.position, 10))
        assert below == [m.position for m in await session.pending(WHOLE, 10)]
        assert len(below) == 2

    async def test_after_a_position_that_is_settled_goes_on_above_it(self, place: OutboxPlace) -> None:
        added = await place.fill(6)
        session = await place.session()
        found = await session.pending(WHOLE, 3)
        await session.settle([(m.position, m.id) for m in found])
        assert [m.id for m in await session.pending(WHOLE, 10, found[-1].position)] == [m.id for m in added[3:]]

    async def test_a_transaction_that_is_open_is_not_read(self, place: OutboxPlace) -> None:
        session = await place.session()
        async with place.writer.transaction() as transaction:
            (added,) = await transaction.add(message("k"))
            assert list(await session.pending(WHOLE, 10)) == []
        assert [m.id for m in await session.pending(WHOLE, 10)] == [added.id]

    async def test_a_transaction_that_commits_late_is_read(self, place: OutboxPlace, add_beside: Adding) -> None:
        """A3, B1, C1: its position is below one that has been read and settled; a new session comes in between."""
        session = await place.session()
        async with place.writer.transaction() as transaction:
            (late,) = await transaction.add(message("late"))
            (early,) = await add_beside(message("early"))
            found = await session.pending(WHOLE, 10)
            assert [m.id for m in found] == [early.id]
            await session.settle([(found[0].position, found[0].id)])
            assert list(await session.pending(WHOLE, 10)) == []
            await session.close()
            session = await place.session()
            assert list(await session.pending(WHOLE, 10)) == []
        assert [m.id for m in await session.pending(WHOLE, 10)] == [late.id]

    async def test_a_late_transaction_comes_before_those_above_it(self, place: OutboxPlace, add_beside: Adding) -> None:
        session = await place.session()
        async with place.writer.transaction() as transaction:
            (late,) = await transaction.add(message("late"))
            (early,) = await add_beside(message("early"))
            assert [m.id for m in await session.pending(WHOLE, 10)] == [early.id]
        assert [m.id for m in await session.pending(WHOLE, 10)] == [late.id, early.id]

    async def test_a_transaction_that_is_rolled_back_is_never_read(self, place: OutboxPlace) -> None:
        session = await place.session()
        (before,) = await place.fill(1)
        with pytest.raises(_RolledBack):
            await self._add_and_roll_back(place)
        (after,) = await place.fill(1)
        assert [m.id for m in await session.pending(WHOLE, 10)] == [before.id, after.id]

    async def _add_and_roll_back(self, place: OutboxPlace) -> None:
        async with place.writer.transaction() as transaction:
            await transaction.add(message("k"), message())
            raise _RolledBack

    async def test_the_order_is_constant_over_ten_thousand_messages(self, place: OutboxPlace) -> None:
        """B6: read in pages, with settles on the way, the oldest is always first."""
        size = place.most(MANY) // PAGES
        added = [m.id for _ in range(PAGES) for m in await place.fill(size)]
        session = await place.session()
        assert [m.id for m in await session.pending(WHOLE, MANY + 1)] == added
        read: list[str] = []
        while page := await session.pending(WHOLE, size):
            ahead = await session.pending(WHOLE, size, page[-1].position)
            read.extend(m.id for m in page)
            assert [m.id for m in ahead] == added[len(read) : len(read) + size]
            await session.settle([(m.position, m.id) for m in page])
        assert read == added

    async def test_two_outboxes_of_one_database_do_not_mix(self, place: OutboxPlace) -> None:
        """A12"""
        other = place.beside()
        await other.schema.apply()
        (here,), (there,) = await place.fill(1), await other.fill(1)
        for outbox, expected in ((place, here), (other, there)):
            session = await outbox.session()
            (found,) = await session.pending(WHOLE, 10)
            assert found.id == expected.id
        found_there = (await (await other.session()).pending(WHOLE, 10))[0]
        assert await (await place.session()).settle([(found_there.position, found_there.id)]) == 0
        await other.close()

    async def test_reading_and_settling_may_run_at_the_same_time(self, place: OutboxPlace) -> None:
        size = place.most(MANY) // PAGES
        added = await place.fill(2 * size)
        session = await place.session()
        first = await session.pending(WHOLE, size)
        rows = [(m.position, m.id) for m in first]
        ahead, settled = await asyncio.gather(session.pending(WHOLE, size, first[-1].position), session.settle(rows))
        assert settled == size
        assert [m.id for m in ahead] == [m.id for m in added[size:]]

    async def test_the_backlog_counts_what_waits(self, place: OutboxPlace) -> None:
        assert (await place.source.backlog()).oldest_age_s is None
        await place.fill(3)
        session = await place.session()
        found = await session.pending(WHOLE, 10)
        await session.park([(found[0], "bad")])
        backlog = await place.source.backlog()
        assert (backlog.pending, backlog.delayed, backlog.parked) == (2, 0, 1)
        assert backlog.oldest_age_s is not None
        assert -1.0 < backlog.oldest_age_s < 60.0
