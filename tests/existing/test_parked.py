"""Parked messages of tables of somebody else: those that stay there wait again, those that were moved out do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from fencepost.errors import ConfigurationError
from fencepost.testing.messages import message
from fencepost.testing.places import WHOLE, OutboxPlace, outbox_place
from fencepost.testing.sources.parking import EVERYTHING, ids, operator, park
from fencepost.testing.writers.existing import ROUTED, STATED

WRITER = "fencepost.testing.writers.existing"
DATABASES = ["sqlite", "postgresql", "mariadb"]


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    fixtures = {"postgresql": "fresh_database", "mariadb": "mariadb_url"}
    if request.param not in fixtures:
        return f"sqlite:///{tmp_path}/shop.db"
    found: str = request.getfixturevalue(fixtures[request.param])
    return found


@pytest_asyncio.fixture
async def stated(url: str) -> AsyncIterator[OutboxPlace]:
    name = url.partition(":")[0].replace("mysql", "mariadb")
    async with outbox_place(name, url, writer_module=WRITER, settle="mark", table=STATED) as place:
        yield place


@pytest_asyncio.fixture
async def routed(url: str) -> AsyncIterator[OutboxPlace]:
    name = url.partition(":")[0].replace("mysql", "mariadb")
    async with outbox_place(name, url, writer_module=WRITER, table=ROUTED) as place:
        yield place


async def test_a_row_that_was_set_aside_waits_again_where_it_stands(stated: OutboxPlace) -> None:
    session = await stated.session()
    one, two = await park(stated, session, message("k", b'{"n": 1}'), replace(message(None), payload=None))
    (newer,) = await stated.add(message("k"))
    async with operator(stated) as store:
        shown, tombstone = await store.page(EVERYTHING, 10)
        assert shown.message == one._replace(payload=None, attempts=1)
        assert (shown.reason, shown.payload_bytes, shown.parked_at) == ("too large", 8, None)
        assert await store.payload(shown) == b'{"n": 1}'
        assert (tombstone.payload_bytes, await store.payload(tombstone)) == (None, None)
        assert list(await store.retry([shown, tombstone])) == [one.id, two.id]
        assert await store.count(EVERYTHING) == 0
    again = list(await session.pending(WHOLE, 10))
    assert again[:2] == [one, two]
    assert again[2].id == newer.id


async def test_rows_whose_position_is_a_time(fresh_database: str) -> None:
    table = replace(STATED, position="created_at")
    async with outbox_place("postgresql", fresh_database, writer_module=WRITER, settle="mark", table=table) as place:
        session = await place.session()
        one, two, three = await park(place, session, *[message("k") for _ in range(3)])
        async with operator(place) as store:
            first = await store.page(EVERYTHING, 2)
            assert ids(first) == [one.id, two.id]
            assert ids(await store.page(EVERYTHING, 2, first[-1])) == [three.id]
            assert await store.retry(first[:1]) == [one.id]
            assert await store.discard(first) == [two.id]
        assert list(await session.pending(WHOLE, 10)) == [one]


async def test_what_was_moved_out_is_shown_and_discarded_but_cannot_go_back(routed: OutboxPlace) -> None:
    session = await routed.session()
    one, two = await park(routed, session, message("k"), message("k"))
    async with operator(routed) as store:
        page = await store.page(EVERYTHING, 10)
        assert ids(page) == [one.id, two.id]
        with pytest.raises(ConfigurationError, match="its other columns"):
            await store.retry(page)
        assert list(await store.discard(page[:1])) == [one.id]
        assert ids(await store.page(EVERYTHING, 10)) == [two.id]
