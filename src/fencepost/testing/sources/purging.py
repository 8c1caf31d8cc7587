"""Rules of settled rows that stay: nobody reads them again, and they are all that is ever purged."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from fencepost import plugins
from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import ConfigurationError
from fencepost.ports import Purger, Purging, Session
from fencepost.testing.messages import delayed, message
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace
from fencepost.testing.sources.settling import named

LONG_AGO_S = 3_600.0


async def purger_of(place: OutboxPlace) -> Purger:
    """Somebody who purges this outbox."""
    source = place.source
    assert isinstance(source, Purging)
    return await source.purger()


async def purged(place: OutboxPlace, older_than_s: float = 0.0, limit: int = 1_000) -> int:
    """How many rows one purge removed."""
    purger = await purger_of(place)
    try:
        return await purger.purge(older_than_s, limit)
    finally:
        await purger.close()


async def settle_all(session: Session) -> int:
    """Settle what may be published now."""
    return await session.settle(named(list(await session.pending(WHOLE, 10_000))))


class PurgingRules(OnDatabase):
    """For outboxes with ``settle`` "mark"."""

    async def test_settled_messages_stay_until_they_are_purged(self, place: OutboxPlace) -> None:
        await place.fill(5)
        session = await place.session()
        assert await settle_all(session) == 5
        assert await session.pending(WHOLE, 10) == []
        purger = await purger_of(place)
        assert (await purger.count(LONG_AGO_S), await purger.count(0.0)) == (0, 5)
        assert (await purger.purge(LONG_AGO_S, 10), await purger.purge(0.0, 10)) == (0, 5)
        assert (await purger.count(0.0), await purger.purge(0.0, 10)) == (0, 0)
        await purger.close()

    async def test_what_is_not_settled_is_never_purged(self, place: OutboxPlace) -> None:
        """C7: an outage was longer than the retention. What waits, is in doubt, delayed or parked stays."""
        added = await place.add(message("a"), delayed(LONG_AGO_S), message("b"), message("c"), message("d"))
        session = await place.session()
        first, second, third, fourth = await session.pending(WHOLE, 10)
        await session.in_doubt([second], 1)
        await session.park([(third, "refused")])
        assert await session.settle(named([fourth])) == 1
        assert await purged(place) == 1
        assert await session.pending(WHOLE, 10) == [first, second._replace(in_doubt=True)]
        backlog = await place.source.backlog()
        assert (backlog.pending, backlog.delayed, backlog.parked) == (2, 1, 1)
        assert {parked.message.id for parked in await place.writer.parked()} == {added[3].id}

    async def test_no_more_than_the_limit_are_purged_at_once_the_oldest_first(self, place: OutboxPlace) -> None:
        await place.fill(6)
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        for part in (found[4:], found[:4]):
            await session.settle(named(part))
            await SYSTEM_CLOCK.sleep(0.01)
        assert await purged(place, limit=2) == 2
        later = await place.session()
        assert await later.settle(named(found)) == 0
        assert await purged(place, limit=10) == 4

    async def test_settled_messages_are_touched_by_nothing(self, place: OutboxPlace) -> None:
        """An owner that was paused wakes up, and its receipts name what its successor has settled."""
        await place.fill(4, key="k")
        session = await place.session()
        found = list(await session.pending(WHOLE, 10))
        assert await session.settle(named(found[:3])) == 3
        late = await place.session()
        assert await late.held([(found[0].position, found[-1].position)]) == named(found[3:])
        await late.in_doubt(found, 7)
        await late.failed([(m, "late") for m in found[:3]])
        await late.park([(m, "late") for m in found[:3]])
        assert await late.settle(named(found[:3])) == 0
        assert await late.below(WHOLE, found[-1].position, 10) == [found[3].position]
        assert await late.pending(WHOLE, 10) == [found[3]._replace(in_doubt=True)]
        assert list(await place.writer.parked()) == []

    async def test_settled_messages_are_no_backlog(self, place: OutboxPlace) -> None:
        await place.fill(3)
        session = await place.session()
        await settle_all(session)
        await place.add(delayed(LONG_AGO_S))
        backlog = await place.source.backlog()
        assert (backlog.pending, backlog.delayed, backlog.oldest_age_s) == (0, 1, None)

    async def test_positions_are_not_handed_out_again_after_a_purge(self, place: OutboxPlace) -> None:
        """C5."""
        await place.fill(3)
        session = await place.session()
        last = list(await session.pending(WHOLE, 10))[-1].position
        await settle_all(session)
        await purged(place)
        await place.fill(1)
        (next_one,) = await session.pending(WHOLE, 10)
        assert next_one.position > last  # type: ignore[operator]

    async def test_writers_and_a_purge_do_not_wait_for_each_other(self, place: OutboxPlace) -> None:
        """D12: a transaction is open all the time, others commit, and rows go."""
        await place.fill(300)
        session = await place.session()
        await settle_all(session)
        purger = await purger_of(place)
        if place.writer.concurrent:
            async with place.writer.transaction() as transaction:
                await transaction.add(message("open"))
                removed = [await asyncio.wait_for(purger.purge(0.0, 100), 5.0) for _ in range(2)]
        else:
            removed = [await purger.purge(0.0, 100) for _ in range(2)]
        filling = asyncio.gather(*(place.fill(1, key=f"k{n}") for n in range(5)))
        removed.append(await purger.purge(0.0, 100))
        await asyncio.wait_for(filling, 10.0)
        await purger.close()
        assert removed == [100, 100, 100]
        assert len(await session.pending(WHOLE, 10)) == 5 + place.writer.concurrent

    async def test_two_purges_at_once_remove_each_row_once(self, place: OutboxPlace) -> None:
        await place.fill(200)
        await settle_all(await place.session())
        first = await asyncio.gather(purged(place, limit=150), purged(place, limit=150))
        assert sum(first) + await purged(place) == 200

    async def test_tables_for_settled_rows_that_are_deleted_are_completed(self, place: OutboxPlace) -> None:
        """An outbox that is at work: what waits stays, and nothing else is touched."""
        other = place.beside(settle="delete")
        await other.schema.apply()
        await other.fill(2)
        marked = other.beside(prefix=other.options.prefix, settle="mark")
        try:
            missing = list(await marked.schema.missing())
            assert missing
            assert list(await marked.schema.apply()) == missing
            assert list(await marked.schema.missing()) == list(await marked.schema.apply()) == []
            assert await settle_all(await marked.session()) == 2
            assert await purged(marked) == 2
            await other.fill(1)  # who does not know of it writes on
            assert len(await (await other.session()).pending(WHOLE, 10)) == 1
        finally:
            await marked.close()
            await other.close()

    async def test_what_is_deleted_at_once_cannot_be_purged(self, place: OutboxPlace) -> None:
        plugin = plugins.load("database", place.database)
        with pytest.raises(ConfigurationError, match="nothing to purge"):
            await plugin.source(replace(place.options, settle="delete")).purger()
