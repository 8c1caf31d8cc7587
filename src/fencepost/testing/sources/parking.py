"""Rules of an operator at work: parked messages are listed, retried and discarded, and are never in two places."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import FixError, RetryError
from fencepost.message import Message, Stored
from fencepost.ports import ParkedFilter, ParkedMessage, ParkedStore, Parking, Session
from fencepost.ports.parking import RETRIED
from fencepost.testing.messages import message, rich
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace
from fencepost.testing.sources.content import found as content

EVERYTHING = ParkedFilter()
REASON_MAX = 100_000
"""A stored reason is shorter than this (E2)."""


@asynccontextmanager
async def operator(place: OutboxPlace) -> AsyncIterator[ParkedStore]:
    """Somebody who looks after the parked messages.

    A source may leave ``fencepost.ports.Parking`` out: nothing that a relay promises depends on it.
    ``fencepost parked`` then refuses to begin (tests/unit/test_parking.py); no rule here has anything to hold it to.
    """
    source = place.source
    if not isinstance(source, Parking):
        pytest.skip(f"{place.database} leaves out the optional contract Parking; `fencepost parked` refuses it by name")
    store = await source.parked()
    try:
        yield store
    finally:
        await store.close()


async def park(place: OutboxPlace, session: Session, *messages: Message, reason: str = "too large") -> list[Stored]:
    """Add messages and park them, one after the other, as a relay would."""
    added = {one.id for one in await place.add(*messages)}
    rows = [row for row in await session.pending(WHOLE, 1_000) if row.id in added]
    for row in rows:
        await session.park([(row, reason)])
    return rows


def ids(rows: Sequence[ParkedMessage]) -> list[str]:
    """The ids of parked messages."""
    return [row.message.id for row in rows]


class ParkingRules(OnDatabase):
    """What ``fencepost.ports.ParkedStore`` promises."""

    async def test_a_parked_message_is_shown_as_it_is_with_its_reason(self, place: OutboxPlace) -> None:
        session = await place.session()
        old, tombstone = await park(place, session, rich("k"), replace(message("other"), payload=None))
        async with operator(place) as store:
            found = {one.message.id: one for one in await store.page(EVERYTHING, 10)}
            assert found.keys() == {old.id, tombstone.id}
            shown = found[old.id]
            assert shown.message == old._replace(payload=None, attempts=old.attempts + 1)
            assert (shown.payload_bytes, shown.reason) == (len(old.payload or b""), "too large")
            assert await store.payload(shown) == old.payload
            assert abs((shown.parked_at or old.occurred_at) - SYSTEM_CLOCK.now()) < timedelta(minutes=5)
            assert found[tombstone.id].payload_bytes is None
            assert await store.payload(found[tombstone.id]) is None

    async def test_pages_have_every_message_once_those_of_a_key_in_order(self, place: OutboxPlace) -> None:
        session = await place.session()
        rows = await park(place, session, *[message("k") for _ in range(5)], message(), message())
        async with operator(place) as store:
            seen: list[ParkedMessage] = []
            while page := await store.page(EVERYTHING, 3, seen[-1] if seen else None):
                assert len(page) <= 3
                seen += page
            assert await store.count(EVERYTHING) == 7
        assert sorted(ids(seen)) == sorted(row.id for row in rows)
        assert [one.message.id for one in seen if one.message.key == "k"] == [r.id for r in rows if r.key == "k"]

    async def test_a_filter_chooses(self, place: OutboxPlace) -> None:
        session = await place.session()
        (a,) = await park(place, session, message("a%_", topic="orders.placed"), reason="Too large: 2 MB")
        (b,) = await park(place, session, message("b", topic="orders.paid"), reason="no such topic")
        (c,) = await park(place, session, message(None, topic="stock"), reason="too large")
        chosen: dict[ParkedFilter, list[str]] = {
            ParkedFilter(topic="stock"): [c.id],
            ParkedFilter(topic="orders.*"): [a.id, b.id],
            ParkedFilter(topic="orders"): [],
            ParkedFilter(key="a%_"): [a.id],
            ParkedFilter(key="A%_"): [],
            ParkedFilter(reason="TOO large"): [a.id, c.id],
            ParkedFilter(reason="%"): [],
            ParkedFilter(ids=(c.id, a.id, message().id)): [a.id, c.id],
            ParkedFilter(ids=()): [],
            ParkedFilter(topic="orders.*", reason="too"): [a.id],
            ParkedFilter(topic="stock", key="b"): [],
        }
        async with operator(place) as store:
            for which, expected in chosen.items():
                assert sorted(ids(await store.page(which, 10))) == sorted(expected), which
                assert await store.count(which) == len(expected), which
                assert len(await store.page(which, 1)) == min(1, len(expected)), which

    async def test_a_filter_knows_when_a_message_was_parked(self, place: OutboxPlace) -> None:
        session = await place.session()
        for _ in range(2):
            await park(place, session, message("k"))
            await SYSTEM_CLOCK.sleep(0.02)
        async with operator(place) as store:
            one, two = await store.page(EVERYTHING, 10)
            assert (one.parked_at or SYSTEM_CLOCK.now()) < (two.parked_at or one.message.occurred_at)
            since, before = ParkedFilter(since=two.parked_at), ParkedFilter(before=two.parked_at)
            assert ids(await store.page(since, 10)) == ids([two])
            assert ids(await store.page(before, 10)) == ids([one])
            assert (await store.count(since), await store.count(before)) == (1, 1)

    async def test_a_retried_message_is_the_last_of_its_key_marked_and_news(self, place: OutboxPlace) -> None:
        session = await place.session()
        (old,) = await park(place, session, rich("k"))
        (newer,) = await place.add(message("k", topic=old.topic))
        async with operator(place) as store:
            assert await store.retry(await store.page(EVERYTHING, 10)) == [old.id]
            assert await store.count(EVERYTHING) == 0
        before, again = await session.pending(WHOLE, 10)
        assert before.id == newer.id
        assert again.version == (newer.version or 0) + 1
        headers = {**(old.headers or {}), RETRIED: "1"}
        assert content(again._replace(version=old.version)) == content(old._replace(headers=headers))
        assert (again.attempts, again.in_doubt) == (0, False)
        (last,) = await place.add(message("k", topic=old.topic))
        assert last.version == again.version + 1
        assert [m.id for m in await session.pending(WHOLE, 10)] == [newer.id, old.id, last.id]

    async def test_a_version_is_kept_where_that_is_wanted(self, place: OutboxPlace) -> None:
        """Where an application counts: the number that comes next is the one that it gives next."""
        session = await place.session()
        (old,) = await park(place, session, message("k"))
        (newer,) = await place.add(message("k"))
        async with operator(place) as store:
            await store.retry(await store.page(EVERYTHING, 10), keep_versions=True)
        (last,) = await place.add(message("k"))
        found = [(m.id, m.version) for m in await session.pending(WHOLE, 10)]
        assert found == [(newer.id, newer.version), (old.id, old.version), (last.id, last.version)]
        assert (newer.version or 0) < (last.version or 0)

    async def test_how_often_it_was_retried_is_counted(self, place: OutboxPlace) -> None:
        session = await place.session()
        await park(place, session, message("k"), message(None))
        async with operator(place) as store:
            for times in ("1", "2"):
                assert len(await store.retry(await store.page(EVERYTHING, 10))) == 2
                rows = list(await session.pending(WHOLE, 10))
                assert [m.headers for m in rows] == [{RETRIED: times}] * 2
                await session.park([(m, "still") for m in rows])
            assert [(p.reason, p.message.attempts) for p in await store.page(EVERYTHING, 10)] == [("still", 1)] * 2

    async def test_many_keep_the_order_of_their_keys(self, place: OutboxPlace) -> None:
        session = await place.session()
        rows = await park(place, session, *[message(key) for key in ("a", "b", "a", None, "b", "a")])
        async with operator(place) as store:
            page = await store.page(EVERYTHING, 10)
            assert sorted(await store.retry(page)) == sorted(row.id for row in rows)
        again = list(await session.pending(WHOLE, 10))
        for key in ("a", "b"):
            assert [m.id for m in again if m.key == key] == [m.id for m in rows if m.key == key]
            versions = [m.version or 0 for m in again if m.key == key]
            assert versions == sorted(set(versions))
            assert versions[0] > max(m.version or 0 for m in rows if m.key == key)
        assert [m.payload for m in again if m.key is None] == [m.payload for m in rows if m.key is None]

    async def test_a_retried_message_is_settled_like_any_other(self, place: OutboxPlace) -> None:
        session = await place.session()
        await park(place, session, message("k"))
        async with operator(place) as store:
            await store.retry(await store.page(EVERYTHING, 10))
        (again,) = await session.pending(WHOLE, 10)
        assert await session.settle([(again.position, again.id)]) == 1
        assert list(await session.pending(WHOLE, 10)) == []
        assert list(await place.writer.parked()) == []

    async def test_a_discarded_message_is_gone_and_the_others_stay(self, place: OutboxPlace) -> None:
        session = await place.session()
        one, two, three = await park(place, session, *[message("k") for _ in range(3)])
        async with operator(place) as store:
            page = await store.page(ParkedFilter(ids=(one.id, three.id)), 10)
            assert sorted(await store.discard(page)) == sorted([one.id, three.id])
            assert await store.discard(page) == []
            assert ids(await store.page(EVERYTHING, 10)) == [two.id]
            with pytest.raises(FixError, match="not parked any more"):
                await store.payload(page[0])
        assert [p.message.id for p in await place.writer.parked()] == [two.id]
        assert list(await session.pending(WHOLE, 10)) == []

    async def test_of_two_operators_one_retries(self, place: OutboxPlace) -> None:
        """Both have read the same page, and one of them repeats the call."""
        session = await place.session()
        rows = await park(place, session, *[message(f"k{n}") for n in range(8)])
        async with operator(place) as first, operator(place) as second:
            pages = [await store.page(EVERYTHING, 10) for store in (first, second)]
            done = await asyncio.gather(patiently(first, pages[0]), patiently(second, pages[1][::-1]))
            assert await first.retry(pages[0]) == []
        assert sorted([*done[0], *done[1]]) == sorted(row.id for row in rows)
        assert sorted(m.id for m in await session.pending(WHOLE, 20)) == sorted(row.id for row in rows)
        assert list(await place.writer.parked()) == []

    async def test_what_one_retries_another_cannot_discard(self, place: OutboxPlace) -> None:
        session = await place.session()
        (old,) = await park(place, session, message("k"))
        async with operator(place) as first, operator(place) as second:
            page = await second.page(EVERYTHING, 10)
            assert await first.retry(page) == [old.id]
            assert await second.discard(page) == []
        assert [m.id for m in await session.pending(WHOLE, 10)] == [old.id]

    async def test_a_long_reason_is_kept_in_part(self, place: OutboxPlace) -> None:
        """E2: a megabyte."""
        session = await place.session()
        await park(place, session, message(), reason="too large: " + "x" * 1_000_000)
        async with operator(place) as store:
            (found,) = await store.page(EVERYTHING, 10)
        assert found.reason.startswith("too large: xxx")
        assert 200 < len(found.reason) < REASON_MAX

    async def test_a_page_is_read_though_payloads_are_large(self, place: OutboxPlace) -> None:
        session = await place.session()
        size = min(300_000, getattr(place.writer, "payload_bytes_max", 300_000))
        (row,) = await park(place, session, replace(message("k"), payload=b"\xff" * size))
        async with operator(place) as store:
            (found,) = await store.page(EVERYTHING, 10)
            assert (found.message.payload, found.payload_bytes) == (None, size)
            await store.retry([found])
        assert [m.payload for m in await session.pending(WHOLE, 10)] == [row.payload]


async def patiently(store: ParkedStore, page: Sequence[ParkedMessage]) -> list[str]:
    """Retry, and again where the other one was in the way, which some databases tell."""
    for _ in range(10):
        try:
            return list(await store.retry(page))
        except RetryError:
            await SYSTEM_CLOCK.sleep(0.05)
    return []
