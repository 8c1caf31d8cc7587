"""Rules of settling: by position *and* id, what is named and nothing else."""

from __future__ import annotations

from fencepost.message import Position, Stored
from fencepost.testing.messages import delayed, message
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace

MANY = 5_000


def named(messages: list[Stored]) -> list[tuple[Position, str]]:
    """What a settle of these messages names."""
    return [(m.position, m.id) for m in messages]


class SettlingRules(OnDatabase):
    """Nothing is deleted that was not named by position and id; everything that was named is gone."""

    async def test_settled_messages_are_gone_and_the_others_stay(self, place: OutboxPlace) -> None:
        await place.fill(6)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        assert await session.settle(named(found[::2])) == 3
        assert list(await session.pending(WHOLE, 10)) == found[1::2]

    async def test_a_settle_is_durable(self, place: OutboxPlace) -> None:
        await place.fill(3)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        await session.settle(named(found[:2]))
        await session.close()
        assert list(await (await place.session()).pending(WHOLE, 10)) == found[2:]

    async def test_another_id_at_the_position_stays(self, place: OutboxPlace) -> None:
        """A15: the position was handed out again, to another message."""
        await place.fill(2)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        assert await session.settle([(found[0].position, message().id)]) == 0
        assert list(await session.pending(WHOLE, 10)) == found

    async def test_the_id_at_another_position_stays(self, place: OutboxPlace) -> None:
        await place.fill(2)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        assert await session.settle([(found[0].position, found[1].id), (found[1].position, found[0].id)]) == 0
        assert list(await session.pending(WHOLE, 10)) == found

    async def test_right_and_wrong_names_in_one_settle_are_told_apart(self, place: OutboxPlace) -> None:
        await place.fill(4)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        rows = [
            *named(found[:1]),
            (found[1].position, message().id),
            *named(found[2:3]),
            (found[3].position, found[2].id),
        ]
        assert await session.settle(rows) == 2
        assert list(await session.pending(WHOLE, 10)) == [found[1], found[3]]

    async def test_settling_twice_settles_once(self, place: OutboxPlace) -> None:
        await place.fill(3)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        assert await session.settle(named(found[:2])) == 2
        assert await session.settle(named(found)) == 1
        assert await (await place.session()).settle(named(found)) == 0

    async def test_settling_nothing_settles_nothing(self, place: OutboxPlace) -> None:
        added = await place.fill(2)
        session = await place.session()
        assert await session.settle([]) == 0
        assert len(await session.pending(WHOLE, 10)) == len(added)

    async def test_thousands_are_settled_at_once(self, place: OutboxPlace) -> None:
        many = place.most(MANY)
        await place.fill(many)
        session = await place.session()
        found = list(await session.pending(WHOLE, MANY))
        assert await session.settle(named(found[1:])) == many - 1
        assert list(await session.pending(WHOLE, MANY)) == found[:1]

    async def test_what_is_in_doubt_or_delayed_can_be_settled(self, place: OutboxPlace) -> None:
        """After a fall-back of the database a receipt may name messages in any state."""
        await place.add(message("k"), delayed(3_600), message("k"))
        session = await place.session()
        first, last = await session.pending(WHOLE, 10)
        await session.in_doubt([first], 1)
        held = await session.held([(first.position, last.position)])
        assert len(held) == 3
        assert await session.settle(held) == 3
        assert list(await session.held([(first.position, last.position)])) == []
        assert await session.release_due(10) is None, "what is settled is not waited for"
