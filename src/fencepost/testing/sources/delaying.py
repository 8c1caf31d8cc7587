"""Rules of delayed messages."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from fencepost.clock import SYSTEM_CLOCK
from fencepost.testing.messages import delayed, message
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace

SOON_S = 1.0


async def wait_until_due(seconds: float = SOON_S) -> None:
    """Sleep until what was delayed by ``seconds`` is due for sure."""
    await SYSTEM_CLOCK.sleep(seconds + 0.1)


class DelayingRules(OnDatabase):
    """Not before their time, and all of them then."""

    async def test_a_delayed_message_is_not_pending_before_its_time(self, place: OutboxPlace) -> None:
        await place.add(delayed(3_600, "k"))
        (now,) = await place.fill(1)
        session = await place.session()
        await session.release_due(100)
        assert [m.id for m in await session.pending(WHOLE, 10)] == [now.id]
        backlog = await place.source.backlog()
        assert (backlog.pending, backlog.delayed) == (1, 1)

    async def test_the_time_until_the_next_one_is_told(self, place: OutboxPlace) -> None:
        session = await place.session()
        assert await session.release_due(100) is None
        await place.add(delayed(3_600), delayed(600), delayed(1_800))
        next_s = await session.release_due(100)
        assert next_s is not None
        assert 590 < next_s < 601

    async def test_messages_that_are_due_become_pending_in_their_order(self, place: OutboxPlace) -> None:
        added = await place.add(delayed(2 * SOON_S, "a"), message("b"), delayed(SOON_S, "c"), delayed(3_600))
        session = await place.session()
        assert [m.id for m in await session.pending(WHOLE, 10)] == [added[1].id]
        await wait_until_due(2 * SOON_S)
        next_s = await session.release_due(100)
        assert [m.id for m in await session.pending(WHOLE, 10)] == [m.id for m in added[:3]]
        assert next_s is not None
        assert next_s > 3_000

    async def test_no_more_than_the_limit_are_released_at_once(self, place: OutboxPlace) -> None:
        """A4, G14: what is left is due already."""
        added = await place.add(*[delayed(SOON_S) for _ in range(10)])
        session = await place.session()
        await wait_until_due()
        next_s = await session.release_due(4)
        assert len(await session.pending(WHOLE, 100)) == 4
        assert next_s is not None
        assert next_s <= 0.0
        await session.release_due(100)
        assert [m.id for m in await session.pending(WHOLE, 100)] == [m.id for m in added]
        assert await session.release_due(100) is None

    async def test_a_release_is_durable(self, place: OutboxPlace) -> None:
        (m,) = await place.add(delayed(SOON_S))
        await wait_until_due()
        session = await place.session()
        await session.release_due(100)
        await session.close()
        assert [f.id for f in await (await place.session()).pending(WHOLE, 10)] == [m.id]

    async def test_a_time_in_the_past_is_now(self, place: OutboxPlace) -> None:
        (m,) = await place.add(delayed(-60))
        session = await place.session()
        await session.release_due(100)
        assert [f.id for f in await session.pending(WHOLE, 10)] == [m.id]

    async def test_a_time_is_an_instant_in_whatever_zone_it_was_written(self, place: OutboxPlace) -> None:
        """B9: on the wall clocks of two writers the later one may look earlier."""
        east, west, now = timezone(timedelta(hours=2)), timezone(timedelta(hours=-5)), SYSTEM_CLOCK.now()
        due = [now - timedelta(minutes=1), now - timedelta(minutes=2), now + timedelta(hours=1)]
        zoned = [due[0].astimezone(east), due[1].astimezone(west), due[2].astimezone(west)]
        added = await place.add(*[replace(message(), available_at=moment) for moment in zoned])
        session = await place.session()
        next_s = await session.release_due(100)
        assert [m.id for m in await session.pending(WHOLE, 10)] == [m.id for m in added[:2]]
        assert next_s is not None
        assert 3_500 < next_s < 3_601

    async def test_an_hour_that_a_clock_skips_or_shows_twice_is_one_instant(self, place: OutboxPlace) -> None:
        """B9: half past two on the nights in which Paris changes its clocks, as its writers and as UTC's see it."""
        paris = ZoneInfo("Europe/Paris")
        skipped = datetime(2024, 3, 31, 2, 30, tzinfo=paris)
        twice = [datetime(2024, 10, 27, 2, 30, tzinfo=paris, fold=fold) for fold in (0, 1)]
        moments = [skipped, *twice]
        await place.add(*[replace(message(), occurred_at=moment, available_at=moment) for moment in moments])
        session = await place.session()
        await session.release_due(100)
        read = [m.occurred_at.isoformat() for m in await session.pending(WHOLE, 10)]
        assert read == ["2024-03-31T01:30:00+00:00", "2024-10-27T00:30:00+00:00", "2024-10-27T01:30:00+00:00"]
        await place.add(replace(message(), available_at=datetime(2099, 3, 29, 2, 30, tzinfo=paris)))
        next_s = await session.release_due(100)
        assert next_s is not None
        due = SYSTEM_CLOCK.now() + timedelta(seconds=next_s)
        assert abs(due - datetime(2099, 3, 29, 2, 30, tzinfo=paris)) < timedelta(seconds=10)
