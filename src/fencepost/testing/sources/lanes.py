"""Rules of lanes: a message belongs to exactly one, decided by its key."""

from __future__ import annotations

from fencepost.message import SLOTS, slot_of
from fencepost.ports import Lane
from fencepost.testing.messages import KEYS, message
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace


def split(count: int) -> list[Lane]:
    """All slots in ``count`` lanes."""
    width = SLOTS // count
    return [Lane("rules", i, i * width, SLOTS - 1 if i == count - 1 else (i + 1) * width - 1) for i in range(count)]


class LaneRules(OnDatabase):
    """Slots partition the messages."""

    async def test_every_message_is_in_exactly_one_lane(self, place: OutboxPlace) -> None:
        keys = [*KEYS, *(f"key-{i}" for i in range(100)), *[None] * 100]
        added = await place.add(*[message(key) for key in keys])
        session = await place.session()
        for lanes in (split(2), split(3), split(16)):
            found = [m.id for lane in lanes for m in await session.pending(lane, 1_000)]
            assert len(found) == len(added)
            assert set(found) == {m.id for m in added}

    async def test_the_slot_is_that_of_the_key_or_of_the_id(self, place: OutboxPlace) -> None:
        added = await place.add(*[message(key) for key in (*KEYS, *[None] * 20)])
        session = await place.session()
        for m in added:
            slot = slot_of(m.key, m.id)
            assert m.id in [f.id for f in await session.pending(Lane("rules", 0, slot, slot), 100)]

    async def test_messages_of_one_key_are_in_one_lane_in_order(self, place: OutboxPlace) -> None:
        keys = [f"key-{i}" for i in range(20)]
        for _ in range(3):
            await place.add(*[message(key) for key in keys])
        session = await place.session()
        for lane in split(4):
            versions: dict[str, list[int]] = {}
            for m in await session.pending(lane, 1_000):
                assert m.key is not None
                assert m.version is not None
                versions.setdefault(m.key, []).append(m.version)
            assert all(len(found) == 3 and found == sorted(set(found)) for found in versions.values())

    async def test_the_limit_counts_messages_of_the_lane(self, place: OutboxPlace) -> None:
        await place.add(*[message(f"key-{i}") for i in range(200)])
        session = await place.session()
        for lane in split(4):
            every = await session.pending(lane, 1_000)
            assert len(every) > 10
            assert list(await session.pending(lane, 10)) == list(every[:10])
            assert list(await session.pending(lane, 10, every[4].position)) == list(every[5:15])
            assert list(await session.below(lane, every[4].position, 10)) == [m.position for m in every[:5]]
            assert list(await session.below(lane, every[4].position, 3)) == [m.position for m in every[:3]]

    async def test_a_lane_with_every_slot_sees_everything(self, place: OutboxPlace) -> None:
        added = await place.add(*[message(f"key-{i}") for i in range(50)])
        assert WHOLE.whole
        assert [m.id for m in await (await place.session()).pending(WHOLE, 100)] == [m.id for m in added]
