"""Rules of what receipts ask of an outbox: what waits in these ranges, and never hand these positions out again."""

from __future__ import annotations

import pytest

from fencepost.message import Position, Stored
from fencepost.ports import Session
from fencepost.testing.messages import delayed, message
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace
from fencepost.testing.sources.settling import named


async def numbered(session: Session) -> list[Stored]:
    """What is pending. Skips where positions are not numbers: such outboxes hand none out that could be reserved."""
    found = list(await session.pending(WHOLE, 10_000))
    if not isinstance(found[0].position, int):
        pytest.skip("positions are not numbers here: none is handed out that could be reserved")
    return found


def number(position: Position) -> int:
    """A position that is a number."""
    assert isinstance(position, int)
    return position


class ReservingRules(OnDatabase):
    """What a receipt names is found, and what it names beyond the end is not handed out."""

    async def test_held_gives_what_waits_inside_the_ranges(self, place: OutboxPlace) -> None:
        await place.fill(9)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        p = [m.position for m in found]
        assert list(await session.held([(p[0], p[-1])])) == named(found)
        assert sorted(await session.held([(p[1], p[3]), (p[6], p[6])])) == named([*found[1:4], found[6]])
        assert list(await session.held([])) == []

    async def test_held_gives_what_is_in_doubt_and_what_is_delayed(self, place: OutboxPlace) -> None:
        added = await place.add(message("k"), delayed(3_600), message("k"))
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.in_doubt(found[:1], 1)
        held = await session.held([(found[0].position, found[-1].position)])
        assert sorted(i for _, i in held) == sorted(m.id for m in added)

    async def test_held_does_not_give_what_is_settled_or_parked(self, place: OutboxPlace) -> None:
        await place.fill(3)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.settle(named(found[:1]))
        await session.park([(found[1], "bad")])
        assert list(await session.held([(found[0].position, found[-1].position)])) == named(found[2:])

    async def test_held_takes_thousands_of_ranges(self, place: OutboxPlace) -> None:
        await place.fill(place.most(4_000))
        session = await place.session()
        every_other = list(await session.pending(WHOLE, 4_000))[::2]
        held = await session.held([(m.position, m.position) for m in every_other])
        assert sorted(held) == sorted(named(every_other))

    async def test_held_looks_beyond_the_end(self, place: OutboxPlace) -> None:
        await place.fill(2)
        session = await place.session()
        found = await numbered(session)
        last = number(found[-1].position)
        assert list(await session.held([(last, last + 1_000_000)])) == named(found[-1:])
        assert list(await session.held([(last + 1, 2**62)])) == []

    async def test_reserved_positions_are_not_handed_out(self, place: OutboxPlace) -> None:
        """A15: the receipts name positions that the database, fallen back, has not handed out yet."""
        await place.fill(3)
        session = await place.session()
        last = number((await numbered(session))[-1].position)
        assert await session.reserve(last + 50) is True
        await place.fill(2)
        fourth, fifth = (number(m.position) for m in (await session.pending(WHOLE, 10))[3:])
        assert last + 50 < fourth < fifth

    async def test_the_very_next_position_can_be_reserved(self, place: OutboxPlace) -> None:
        await place.fill(1)
        session = await place.session()
        last = number((await numbered(session))[-1].position)
        assert await session.reserve(last + 1) is True
        await place.fill(1)
        assert number((await session.pending(WHOLE, 10))[-1].position) > last + 1

    async def test_a_reservation_is_durable(self, place: OutboxPlace) -> None:
        await place.fill(1)
        session = await place.session()
        found = await numbered(session)
        await session.reserve(number(found[-1].position) + 50)
        await session.settle(named(found))
        await session.close()
        await place.fill(1)
        (m,) = await (await place.session()).pending(WHOLE, 10)
        assert number(m.position) > number(found[-1].position) + 50

    async def test_reserving_twice_tells_that_nothing_was_free(self, place: OutboxPlace) -> None:
        await place.fill(1)
        session = await place.session()
        last = number((await numbered(session))[-1].position)
        assert await session.reserve(last + 50) is True
        assert await session.reserve(last + 50) is False
        assert await session.reserve(last + 10) is False

    async def test_reserving_what_was_handed_out_changes_nothing(self, place: OutboxPlace) -> None:
        await place.fill(3)
        session = await place.session()
        found = await numbered(session)
        assert await session.reserve(found[-1].position) is False
        await session.settle(named(found))
        assert await session.reserve(found[-1].position) is False
        assert await session.reserve(found[0].position) is False
        await place.fill(1)
        (m,) = await session.pending(WHOLE, 10)
        assert number(m.position) > number(found[-1].position)

    async def test_positions_never_come_back(self, place: OutboxPlace) -> None:
        """C5: not even that of the last message, settled before the next one is added."""
        session = await place.session()
        seen: list[Position] = []
        for _ in range(5):
            await place.fill(2)
            found = list(await session.pending(WHOLE, 10))
            await session.settle(named(found))
            seen += [m.position for m in found]
        assert seen == sorted(set(seen))

    async def test_an_empty_outbox_can_reserve(self, place: OutboxPlace) -> None:
        """A database restored from a backup that is older than its first message."""
        session = await place.session()
        was_free = await session.reserve(1_000)
        await place.fill(1)
        (m,) = await numbered(session)
        assert was_free is True
        assert number(m.position) > 1_000
