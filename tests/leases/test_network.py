"""Servers that do not answer, connections that end, sessions that are not one's own: on a real PostgreSQL."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from fencepost.elections.sql import SqlLeaseStore
from fencepost.errors import AccessDenied, ConfigurationError, DeadlineExceeded, SchemaMissing, Unavailable
from fencepost.leases import Leadership, Tenure
from fencepost.ports import LeaseOptions, LeaseStore
from tests.leases.forwarder import Forwarder
from tests.leases.places import Place

NAME = "orders.0"
LONG_S = 30.0


@pytest.fixture
async def network(postgresql_place: Place) -> AsyncIterator[Forwarder]:
    async with Forwarder(postgresql_place.url) as forwarder:
        yield forwarder
        await postgresql_place.close_stores()


async def campaign(store: LeaseStore, owner: str, ttl_s: float, name: str = NAME) -> Tenure:
    return await Leadership(store, name, owner, ttl_s).campaign()


async def test_a_server_that_never_answers(postgresql_place: Place) -> None:
    """D4: it accepts the connection, and that is all."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        store = postgresql_place.store(url=f"postgresql://x@127.0.0.1:{server.getsockname()[1]}/x", timeout_s=0.5)
        for call in (store.open(), store.acquire(NAME, "one", LONG_S), store.holder(NAME), store.wait(NAME, LONG_S)):
            started = time.monotonic()
            with pytest.raises(DeadlineExceeded):
                await call
            assert 0.4 < time.monotonic() - started < 2.0


async def test_a_server_that_stops_answering(network: Forwarder, postgresql_place: Place) -> None:
    """D4, D5: the call ends at its deadline, its connection is dropped, the next call makes another one."""
    store = postgresql_place.store(url=network.url, timeout_s=1.0)
    term = await store.acquire(NAME, "one", LONG_S)
    assert term is not None
    network.stop()
    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            await store.renew(term, LONG_S)
    await network.cut()
    network.go_on()
    assert await store.renew(term, LONG_S)


async def test_a_server_that_cannot_be_reached(postgresql_place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    store = postgresql_place.store(url=f"postgresql://x@127.0.0.1:{port}/x")
    with pytest.raises(Unavailable, match=str(port)):
        await store.open()
    await store.close()


async def test_the_leader_stops_before_its_lease_ends_where_it_is_cut_off(
    network: Forwarder, postgresql_place: Place
) -> None:
    """F6: for two leases, then healed. Somebody else leads meanwhile, and never both at once."""
    ttl_s = 2.0
    tenure = await campaign(postgresql_place.store(url=network.url), "one", ttl_s)
    network.stop()
    other = asyncio.ensure_future(campaign(postgresql_place.store(), "two", ttl_s))
    await tenure.lost.wait()
    assert not other.done()
    next_tenure = await other
    assert tenure.trusted_for_s() <= 0
    assert not next_tenure.term.early
    await asyncio.sleep(ttl_s)
    network.go_on()
    await tenure.release()
    await asyncio.sleep(0.5)
    assert not next_tenure.lost.is_set()
    assert next_tenure.trusted_for_s() > 0
    await next_tenure.release()


async def test_a_session_that_an_administrator_ends(postgresql_place: Place) -> None:
    """F2: its owner lives. It takes its lock again on a new connection at once, or learns that it was replaced."""
    await asyncio.gather(*(ended_twice(postgresql_place, name) for name in ("orders.0", "orders.1", "orders.2")))


async def ended_twice(place: Place, name: str) -> None:
    """The session of whoever has the lease of that name."""
    ttl_s = 3.0
    owners = [f"{place.options.prefix}{name}.{i}" for i in range(4)]
    stores = {o: place.store(url=named(place, o)) for o in owners}
    tenure = await campaign(stores[owners[0]], owners[0], ttl_s, name)
    candidates = iter(owners[1:])

    def start_campaign() -> asyncio.Task[Tenure]:
        owner = next(candidates)
        return asyncio.ensure_future(campaign(stores[owner], owner, ttl_s, name))

    standby = start_campaign()
    for _ in range(2):
        await asyncio.sleep(0.7)
        terminate(place, tenure.term.owner)
        await asyncio.sleep(1.5)
        if standby.done():
            assert tenure.lost.is_set()
            assert tenure.trusted_for_s() <= 0
            await tenure.release()
            tenure = await standby
            assert tenure.term.early
            standby = start_campaign()
        assert not tenure.lost.is_set()
        row = "SELECT session, token FROM {lease} WHERE name = :name"
        assert place.execute(row, name=name) == [(True, tenure.term.token)]
    standby.cancel()
    await asyncio.gather(standby, return_exceptions=True)
    await tenure.release()


async def test_an_owner_that_lost_its_session_says_so_where_it_cannot_have_its_lock_again(
    postgresql_place: Place,
) -> None:
    """Otherwise a candidate would take a living owner for dead, again and again."""
    name = f"{postgresql_place.options.prefix}one"
    one, two = postgresql_place.store(url=named(postgresql_place, name)), postgresql_place.store()
    term = await one.acquire(NAME, "one", LONG_S)
    assert term is not None
    ((place,),) = postgresql_place.execute(
        "SELECT classid::int8 FROM pg_locks JOIN pg_stat_activity USING (pid)"
        " WHERE locktype = 'advisory' AND objid = 1 AND application_name = :name",
        name=name,
    )
    assert isinstance(place, int)
    engine = create_async_engine(driver_url(postgresql_place), poolclass=NullPool)
    async with engine.connect() as other:
        lock = sa.text(f"SELECT pg_advisory_lock({place - 2**32 if place >= 2**31 else place}, 1)")
        taking = asyncio.ensure_future(other.execute(lock))
        await asyncio.sleep(0.3)
        terminate(postgresql_place, name)
        await taking
        await asyncio.sleep(0.2)  # until it has noticed
        assert await one.renew(term, LONG_S)
        assert postgresql_place.execute("SELECT session FROM {lease}") == [(False,)]
        assert await two.acquire(NAME, "two", LONG_S) is None
    await asyncio.sleep(0.2)
    assert await one.renew(term, LONG_S)
    assert postgresql_place.execute("SELECT session FROM {lease}") == [(True,)]


async def test_behind_a_pooler_sessions_prove_nothing(postgresql_place: Place) -> None:
    """F7: a pooler greets with a process of its own. Leases work, without session evidence, and the store says why."""
    async with Forwarder(postgresql_place.url, greet_as_pid=1) as pooler:
        one, two = postgresql_place.store(url=pooler.url), postgresql_place.store()
        assert isinstance(one, SqlLeaseStore)
        assert isinstance(two, SqlLeaseStore)
        await one.open()
        await two.open()
        assert "pooler" in one.session_evidence
        assert "advisory lock" in two.session_evidence
        term = await one.acquire(NAME, "one", 3.0)
        assert term is not None
        assert postgresql_place.execute("SELECT session FROM {lease}") == [(False,)]
        assert await one.renew(term, 3.0)
        await one.close()
        assert await two.acquire(NAME, "two", LONG_S) is None
        await two.wait(NAME, LONG_S)
        next_term = await two.acquire(NAME, "two", LONG_S)
        assert next_term is not None
        assert not next_term.early
        await one.open()
        waiting = asyncio.ensure_future(one.wait(NAME, LONG_S))
        await asyncio.sleep(0.3)
        started = time.monotonic()
        await two.release(next_term)
        await waiting
        assert time.monotonic() - started < 1.5  # it cannot listen: it looks
        await one.close()


async def test_a_pool_that_the_application_has_exhausted(postgresql_place: Place) -> None:
    """F8: the lease has a connection of its own."""
    engine = create_async_engine(driver_url(postgresql_place), pool_size=1, max_overflow=0, pool_timeout=0.2)
    async with engine.connect():
        with pytest.raises(sa.exc.TimeoutError):
            await engine.connect()
        tenure = await campaign(postgresql_place.store(), "one", 1.0)
        await asyncio.sleep(2.0)
        assert not tenure.lost.is_set()
        await tenure.release()
    await engine.dispose()


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Lima"])
async def test_time_zones(postgresql_place: Place, zone: str) -> None:
    """F3: whatever the session's time zone is, there is one leader, and it ends when it should."""
    away = f"{postgresql_place.url}?timezone={zone}"
    one, two = postgresql_place.store(url=away), postgresql_place.store()
    await one.open()
    await two.open()
    term = await one.acquire(NAME, "one", 2.0)
    assert term is not None
    holder = await two.holder(NAME)
    assert holder is not None
    assert 0 < holder.remaining_s <= 2.0
    assert await two.acquire(NAME, "two", LONG_S) is None
    await asyncio.sleep(2.0)
    assert await two.acquire(NAME, "two", LONG_S) is not None
    assert await one.acquire(NAME, "one", LONG_S) is None


async def test_a_candidate_that_is_paused_under_the_row_lock_blocks_nobody(postgresql_place: Place) -> None:
    """It may be stopped between two statements: the server ends its transaction."""
    one, two = await postgresql_place.sessions(2)
    assert isinstance(two, SqlLeaseStore)
    term = await one.acquire(NAME, "one", 2.0)
    assert term is not None
    async with two._link.use(LONG_S) as wire:  # what acquire does first
        await two._database.begin(wire, 2.0)
        assert await wire.first(two._say.lock, name_=NAME) is not None
        started = time.monotonic()
        renewal = asyncio.ensure_future(one.renew(term, 2.0))
        await asyncio.sleep(0.2)
        assert not renewal.done()
        assert await renewal
        assert time.monotonic() - started < 1.0
        wire.broken = True
    assert await two.acquire(NAME, "two", LONG_S) is None


@pytest.mark.long
async def test_waiting_costs_less_than_a_statement_a_second_and_holds_no_snapshot(postgresql_place: Place) -> None:
    """D10: counted by the server, in the steady state."""
    name = f"{postgresql_place.options.prefix}standby"
    leader = await campaign(postgresql_place.store(), "one", 30.0)
    store = postgresql_place.store(url=named(postgresql_place, name))
    standby = asyncio.ensure_future(campaign(store, "two", 30.0))
    await asyncio.sleep(3.0)  # what it asks once, on a busy machine too, is over
    look = "SELECT state, backend_xmin, query_start FROM pg_stat_activity WHERE application_name = :name"
    seen = []
    started = time.monotonic()
    while time.monotonic() - started < 8.0:
        seen += postgresql_place.execute(look, name=name)
        await asyncio.sleep(0.05)
    idle = [xmin for state, xmin, _ in seen if state == "idle"]
    assert set(idle) == {None}
    assert {state for state, _, _ in seen} <= {"idle", "active"}
    assert len(idle) > 0.9 * len(seen)
    assert 6 <= len({begun for _, _, begun in seen}) <= 10  # in 8 s, with the one before and one under way at the end
    standby.cancel()
    await asyncio.gather(standby, return_exceptions=True)
    await leader.release()


async def test_a_missing_table_is_named_with_the_remedy(postgresql_place: Place) -> None:
    store = Place("postgresql", postgresql_place.url, LeaseOptions(url="", prefix="nothing_")).store()
    for _ in range(2):
        with pytest.raises(SchemaMissing, match="nothing_lease") as caught:
            await store.open()
        assert "fencepost schema apply" in caught.value.remedy
    await store.close()


async def test_a_table_that_is_dropped_later_is_named_too(postgresql_place: Place) -> None:
    (store,) = await postgresql_place.sessions(1)
    postgresql_place.execute("ALTER TABLE {lease} RENAME TO " + postgresql_place.options.prefix + "gone")
    try:
        with pytest.raises(SchemaMissing, match="fencepost schema apply"):
            await store.acquire(NAME, "one", LONG_S)
    finally:
        postgresql_place.execute(f"ALTER TABLE {postgresql_place.options.prefix}gone RENAME TO " + "{lease}")


async def test_who_is_not_let_in(postgresql_place: Place) -> None:
    role = f"{postgresql_place.options.prefix}role"
    postgresql_place.execute(f"CREATE ROLE {role} LOGIN")
    try:
        store = postgresql_place.store(url=postgresql_place.url.replace("postgres@", f"{role}@"))
        with pytest.raises(AccessDenied, match="permission denied"):
            await store.acquire(NAME, "one", LONG_S)
        nobody = postgresql_place.store(url=postgresql_place.url.replace("postgres@", "nobody_at_all:secret@"))
        with pytest.raises(AccessDenied) as caught:
            await nobody.open()
        assert "secret" not in str(caught.value)
        await postgresql_place.close_stores()
    finally:
        postgresql_place.execute(f"DROP ROLE {role}")


async def test_a_database_that_does_not_exist(postgresql_place: Place) -> None:
    store = postgresql_place.store(url=postgresql_place.url.rpartition("/")[0] + "/nix")
    with pytest.raises(ConfigurationError, match="nix"):
        await store.open()


def named(place: Place, name: str) -> str:
    return f"{place.url}?application_name={name}"


def driver_url(place: Place) -> str:
    return place.url.replace("postgresql://", "postgresql+asyncpg://")


def terminate(place: Place, name: str) -> None:
    """End a session as an administrator does."""
    ended = place.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :n", n=name)
    assert ended == [(True,)]
