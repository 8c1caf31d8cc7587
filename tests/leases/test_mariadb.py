"""MariaDB in its own way: a named lock shows that the owner lives, and a standby waits for it in the server."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from fencepost.elections.sql import SqlLeaseStore
from tests.databases.mariadb_kit import ask
from tests.leases.places import Place, fresh, make_place

NAME = "orders.0"
WAITING = "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock' AND info LIKE '%fencepost%'"


@pytest.fixture
async def mariadb_place(mariadb_url: str) -> AsyncIterator[Place]:
    made = make_place("mariadb", mariadb_url, prefix=f"t{fresh()}_")
    yield made
    await made.close()


async def stores(place: Place) -> tuple[SqlLeaseStore, SqlLeaseStore]:
    one, two = await place.sessions(2)
    assert isinstance(one, SqlLeaseStore)
    assert isinstance(two, SqlLeaseStore)
    return one, two


async def test_a_standby_waits_in_the_server(mariadb_place: Place) -> None:
    """D10, D11: one statement that lasts, and ends with the owner's release."""
    one, two = await stores(mariadb_place)
    assert one.session_evidence == "a named lock of the owner's session"
    term = await one.acquire(NAME, "one", 30.0)
    assert term is not None
    waiting = asyncio.ensure_future(two.wait(NAME, 30.0))
    async with asyncio.timeout(10):
        while ask(mariadb_place.url, WAITING) != [(1,)]:
            await asyncio.sleep(0.05)
    said: list[str] = []
    sa.event.listen(two._database.engine.sync_engine, "before_cursor_execute", lambda *call: said.append(call[2]))
    await asyncio.sleep(1.0)
    assert (waiting.done(), said) == (False, [])
    await one.release(term)
    await asyncio.wait_for(waiting, 5)
    assert len(said) == 1  # it gives back what it has waited for
    following = await two.acquire(NAME, "two", 30.0)
    assert following is not None
    assert following.token == term.token + 1
    assert await one.renew(term, 30.0) is False


async def test_a_killed_session_lets_a_standby_in_early(mariadb_place: Place) -> None:
    """F2: the owner hears of it too, without a statement."""
    one, two = await stores(mariadb_place)
    term = await one.acquire(NAME, "one", 60.0)
    assert term is not None
    keeping = asyncio.ensure_future(one.wait(NAME, 60.0))
    waiting = asyncio.ensure_future(two.wait(NAME, 60.0))
    await asyncio.sleep(0.3)
    assert one._link._wire is not None
    ask(mariadb_place.url, f"KILL CONNECTION {one._link._wire.driver.thread_id()}")
    await asyncio.wait_for(asyncio.gather(keeping, waiting), 10)
    taken = await two.acquire(NAME, "two", 60.0)
    assert taken is not None
    assert (taken.token, taken.early) == (term.token + 1, True)
    assert await one.renew(term, 60.0) is False


async def test_a_candidate_that_is_paused_with_the_lock_does_not_keep_the_owner_from_renewing(
    mariadb_place: Place,
) -> None:
    one, two = await stores(mariadb_place)
    ttl_s = 6.0
    term = await one.acquire(NAME, "one", ttl_s)
    assert term is not None
    wire = two._link._wire
    assert wire is not None
    await two._database.begin(wire, 4.0)
    assert await wire.first(two._say.lock, name_=NAME) is not None
    started = time.monotonic()
    assert await one.renew(term, ttl_s) is True
    assert time.monotonic() - started < ttl_s


async def test_without_evidence_where_it_is_switched_off(mariadb_place: Place) -> None:
    store = mariadb_place.store(settings={"session_evidence": "off"})
    await store.open()
    assert isinstance(store, SqlLeaseStore)
    assert store.session_evidence == 'none: session_evidence = "off"'
