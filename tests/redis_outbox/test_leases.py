"""Leases in Redis: what shows that an owner is gone, and what a store does when its connections are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from fencepost.elections.redis import RedisLeaseStore, lease_store, refused
from fencepost.errors import AccessDenied, ConfigurationError, RetryError, Unavailable
from fencepost.ports import LeaseOptions
from tests.redis_outbox.servers import redis_server

TTL_S = 30.0
GONE_S = 3.0
"""How soon a candidate may have the lease of an owner whose connection has ended: it looks about once a second."""

Make = Callable[..., RedisLeaseStore]


@pytest.fixture
async def make(redis_url: str, prefix: str, client: Any) -> AsyncIterator[Make]:
    """Makes stores, closed at the end."""
    async with AsyncExitStack() as stack:

        def made(url: str = redis_url, **settings: object) -> RedisLeaseStore:
            store = lease_store(LeaseOptions(url=url, prefix=prefix, settings=settings))
            stack.push_async_callback(store.close)
            return store

        yield made


def end_sessions(client: Any, *, listening: bool) -> None:
    """Cut the connections of lease stores that listen, or those that ask."""
    for each in client.client_list():
        if each["name"] == "fencepost-lease" and (int(each["sub"]) > 0) is listening:
            client.client_kill_filter(_id=each["id"])


async def taken_after(store: RedisLeaseStore, name: str) -> float:
    """How long it takes a candidate to get the lease, in seconds; it has it as an early one."""
    started = time.monotonic()
    while (term := await store.acquire(name, "b", TTL_S)) is None:
        await store.wait(name, 5.0)
        assert time.monotonic() < started + TTL_S
    assert term.early
    return time.monotonic() - started


async def test_an_owner_whose_process_is_killed_is_replaced_soon(make: Make, client: Any) -> None:
    """D1: long before its lease ends."""
    owner, candidate = make(), make()
    assert await owner.acquire("lane", "a", TTL_S) is not None
    waiting = asyncio.ensure_future(taken_after(candidate, "lane"))
    await asyncio.sleep(0.2)
    await owner.close()
    assert await waiting < GONE_S


async def test_an_owner_that_is_there_keeps_its_lease(make: Make) -> None:
    owner, candidate = make(), make()
    await owner.acquire("lane", "a", TTL_S)
    for _ in range(5):
        assert await candidate.acquire("lane", "b", TTL_S) is None
        await candidate.wait("lane", 0.2)


async def test_an_owner_whose_connection_ends_is_woken_and_shows_itself_again(make: Make, client: Any) -> None:
    """F2: it renews at once, unless somebody else was faster."""
    owner, candidate = make(), make()
    term = await owner.acquire("lane", "a", TTL_S)
    assert term is not None
    waiting = asyncio.ensure_future(owner.wait("lane", 20.0))
    await asyncio.sleep(0.2)
    end_sessions(client, listening=True)
    await asyncio.wait_for(waiting, 2.0)
    assert await owner.renew(term, TTL_S)
    assert await candidate.acquire("lane", "b", TTL_S) is None


async def test_an_owner_is_woken_when_somebody_else_takes_its_lease(make: Make, client: Any, prefix: str) -> None:
    """F1"""
    owner, thief = make(), make()
    term = await owner.acquire("lane", "a", TTL_S)
    assert term is not None
    waiting = asyncio.ensure_future(owner.wait("lane", 20.0))
    await asyncio.sleep(0.2)
    client.hset(f"{prefix}lease:lane", "expires_us", 0)
    assert await thief.acquire("lane", "b", TTL_S) is not None
    await asyncio.wait_for(waiting, 2.0)
    assert not await owner.renew(term, TTL_S)


async def test_without_evidence_a_lease_lasts_as_long_as_it_says(make: Make) -> None:
    owner, candidate = make(session_evidence="off"), make()
    await owner.acquire("lane", "a", 2.0)
    await owner.close()
    for _ in range(3):
        assert await candidate.acquire("lane", "b", TTL_S) is None
        await asyncio.sleep(0.3)
    await candidate.wait("lane", 5.0)
    term = await candidate.acquire("lane", "b", TTL_S)
    assert term is not None
    assert not term.early


async def test_a_store_connects_again_by_itself(make: Make, client: Any) -> None:
    """D5"""
    store = make()
    term = await store.acquire("lane", "a", TTL_S)
    assert term is not None
    for listening in (True, False):
        end_sessions(client, listening=listening)
    with pytest.raises(RetryError):
        await store.renew(term, TTL_S)
    assert await store.renew(term, TTL_S)
    assert await store.acquire("lane", "b", TTL_S) is None


async def test_a_token_survives_a_restart(make: Make, tmp_path: Path) -> None:
    with redis_server(tmp_path / "aof", "--appendonly", "yes", "--save", "") as server:
        store = make(server.url)
        first = await store.acquire("lane", "a", TTL_S)
        assert first is not None
        await store.release(first)
        server.kill()
        server.start()
        other = make(server.url)
        second = await other.acquire("lane", "a", TTL_S)
        assert second is not None
        assert second.token == first.token + 1


async def test_missing_rights_are_told_by_the_rehearsal(make: Make, tmp_path: Path) -> None:
    with redis_server(tmp_path / "guarded") as server, server.client() as client:
        for user, channels in (("deaf", ["other:*"]), ("able", ["*"])):
            client.acl_setuser(user, enabled=True, passwords=["+p"], keys=["*"], channels=channels, commands=["+@all"])
        for user, able in (("deaf", False), ("able", True)):
            store = make(server.url.replace("127.0.0.1", f"{user}:p@127.0.0.1"))
            await store.open()
            if able:
                await store.rehearse()
            else:
                with pytest.raises(AccessDenied, match="no lease can be taken or kept"):
                    await store.rehearse()


async def test_a_replica_gives_no_leases(make: Make, tmp_path: Path) -> None:
    with (
        redis_server(tmp_path / "one") as one,
        redis_server(tmp_path / "two", "--replicaof", f"127.0.0.1 {one.port}") as two,
        pytest.raises(Unavailable, match="read-only replica"),
    ):
        await make(two.url).open()


def test_unknown_settings_are_refused() -> None:
    assert list(refused("redis://h", {"session_evidence": "auto"})) == []
    assert list(refused("redis://h", {"session_evidence": "maybe", "ttl": 3})) == ["session_evidence", "ttl"]
    with pytest.raises(ConfigurationError, match="session_evidence"):
        lease_store(LeaseOptions(url="redis://h", settings={"session_evidence": "maybe"}))
    with pytest.raises(ConfigurationError, match="no schemas"):
        lease_store(LeaseOptions(url="redis://h", schema="public"))
    with pytest.raises(ConfigurationError, match="hash tag"):
        lease_store(LeaseOptions(url="redis+cluster://h"))
