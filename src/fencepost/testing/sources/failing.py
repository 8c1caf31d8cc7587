"""Rules of messages that cannot go: in doubt, failed, parked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fencepost.ports import Limited
from fencepost.testing.messages import ERRORS, message, rich
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace
from fencepost.testing.sources.content import found as content

TEXT_MAX = 100_000
"""A stored error text is shorter than this (E2)."""


class FailingRules(OnDatabase):
    """Attempts are counted once, the cause is kept, nothing is lost on the way to the parked ones."""

    async def test_what_is_in_doubt_says_so_and_is_still_pending(self, place: OutboxPlace) -> None:
        """D1: whoever reads next, sees it again, at its place."""
        if not getattr(place.source, "marks_doubt", True):
            assert isinstance(place.source, Limited), "`marks_doubt` counts only beside `limits`: have both"
            pytest.skip(f"{place.database} has no mark, and says so: brokers that may repeat are refused with it")
        await place.fill(3)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.in_doubt(found[1:2], 7)
        expected = [found[0], found[1]._replace(in_doubt=True), found[2]]
        assert list(await session.pending(WHOLE, 10)) == expected
        await session.close()
        assert list(await (await place.session()).pending(WHOLE, 10)) == expected

    async def test_another_message_at_the_position_is_not_in_doubt(self, place: OutboxPlace) -> None:
        await place.fill(1)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.in_doubt([found[0]._replace(id=message().id)], 7)
        assert list(await session.pending(WHOLE, 10)) == found

    async def test_a_failure_adds_one_attempt_and_keeps_the_cause(self, place: OutboxPlace) -> None:
        """A2"""
        await place.fill(3)
        session = await place.session()
        first, second, third = await session.pending(WHOLE, 10)
        await session.failed([(first, "too large"), (third, "no such topic")])
        await session.failed([(first, "still too large")])
        again = list(await session.pending(WHOLE, 10))
        assert [m.attempts for m in again] == [2, 0, 1]
        assert [m._replace(attempts=0) for m in again] == [first, second, third]
        assert await place.writer.last_error(first.id) == "still too large"
        assert await place.writer.last_error(second.id) is None
        assert await place.writer.last_error(third.id) == "no such topic"

    async def test_a_failure_of_another_message_at_the_position_is_not_counted(self, place: OutboxPlace) -> None:
        await place.fill(1)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.failed([(found[0]._replace(id=message().id), "too large")])
        assert list(await session.pending(WHOLE, 10)) == found
        assert await place.writer.last_error(found[0].id) is None

    async def test_any_error_text_can_be_stored_and_long_ones_are_cut(self, place: OutboxPlace) -> None:
        """E2"""
        await place.fill(len(ERRORS))
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.failed(list(zip(found, ERRORS, strict=True)))
        assert [m.attempts for m in await session.pending(WHOLE, 10)] == [1] * len(ERRORS)
        kept = [await place.writer.last_error(m.id) or "" for m in found]
        assert all(len(text) < TEXT_MAX for text in kept)
        assert [text[:4] for text in kept] == [text[:4] for text in ERRORS]
        assert len(kept[-1]) >= 200

    async def test_a_parked_message_is_moved_as_it_is(self, place: OutboxPlace) -> None:
        added = await place.add(rich("k"), replace(message(), payload=None), message("other"))
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.failed([(found[0], "once")])
        again = list(await session.pending(WHOLE, 10))
        await session.park([(again[0], "too large"), (again[1], "no such topic")])
        assert [m.id for m in await session.pending(WHOLE, 10)] == [added[2].id]
        parked = {p.message.id: p for p in await place.writer.parked()}
        assert parked.keys() == {added[0].id, added[1].id}
        for m, reason in zip(again[:2], ("too large", "no such topic"), strict=True):
            assert content(parked[m.id].message) == content(m)
            assert parked[m.id].message.position == m.position
            assert parked[m.id].message.attempts == m.attempts + 1, "the attempt that failed last counts too"
            assert parked[m.id].reason == reason

    async def test_parking_twice_parks_once(self, place: OutboxPlace) -> None:
        await place.fill(2)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.park([(found[0], "first")])
        await session.park([(found[0], "second")])
        await (await place.session()).park([(found[0], "third"), (found[1], "only")])
        assert sorted((p.message.id, p.reason) for p in await place.writer.parked()) == sorted(
            [(found[0].id, "first"), (found[1].id, "only")]
        )

    async def test_another_message_at_the_position_is_not_parked(self, place: OutboxPlace) -> None:
        await place.fill(2)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.park([(found[0]._replace(id=message().id), "bad"), (found[1]._replace(id=found[0].id), "bad")])
        assert list(await session.pending(WHOLE, 10)) == found
        assert list(await place.writer.parked()) == []

    async def test_what_is_in_doubt_can_be_parked(self, place: OutboxPlace) -> None:
        await place.fill(1)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.in_doubt(found, 7)
        await session.park([(m, "bad") for m in await session.pending(WHOLE, 10)])
        assert list(await session.pending(WHOLE, 10)) == []
        assert [p.message.id for p in await place.writer.parked()] == [found[0].id]

    async def test_any_reason_can_be_stored_and_long_ones_are_cut(self, place: OutboxPlace) -> None:
        """E2"""
        await place.fill(len(ERRORS))
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.park(list(zip(found, ERRORS, strict=True)))
        assert list(await session.pending(WHOLE, 10)) == []
        reasons = {p.message.id: p.reason for p in await place.writer.parked()}
        assert [reasons[m.id][:4] for m in found] == [text[:4] for text in ERRORS]
        assert all(len(text) < TEXT_MAX for text in reasons.values())

    async def test_nothing_to_do_is_nothing_done(self, place: OutboxPlace) -> None:
        await place.fill(2)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.in_doubt([], 7)
        await session.failed([])
        await session.park([])
        assert list(await session.pending(WHOLE, 10)) == found
