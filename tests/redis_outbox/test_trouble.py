"""Servers that will not do, that go away, that fall back: what connecting, a session and the check say."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from fencepost.databases.redis import RedisOutbox, RedisSession, schema, source
from fencepost.elections.redis import lease_store
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    RetryError,
    Unavailable,
)
from fencepost.message import slot_of
from fencepost.ports import DatabaseOptions, Lane, LeaseOptions
from fencepost.receipt import Receipt, Receipts
from tests.databases.proxy import proxy
from tests.docs.pages import TREE, the_block
from tests.redis_outbox.servers import redis_server
from tests.services import free_port

LANE = Lane("orders")


@asynccontextmanager
async def session_with(options: DatabaseOptions) -> AsyncIterator[RedisSession]:
    session = await source(options).connect()
    try:
        yield session
    finally:
        await session.close()


def fill(client: Any, outbox: RedisOutbox, count: int) -> list[str]:
    """Add messages to one entity; their ids."""
    with client.pipeline() as pipe:
        added = [outbox.add(pipe, "orders", {"n": n}, key="1").id for n in range(count)]
        pipe.execute()
    return added


# --------------------------------------------------------------------------------------------- servers that will not do


async def refusal(url: str, **more: Any) -> FencepostError:
    """What connecting says; the schema says the same."""
    options = DatabaseOptions(url=url, timeout_s=5.0, **more)
    with pytest.raises(FencepostError) as caught:
        await source(options).connect()
    with pytest.raises(type(caught.value)):
        await schema(options).apply()
    return caught.value


async def test_a_server_that_is_not_there() -> None:
    error = await refusal(f"redis://127.0.0.1:{free_port()}/0")
    assert type(error) is Unavailable
    assert "is the server running" in error.remedy


async def test_wrong_credentials_and_missing_rights(tmp_path: Path) -> None:
    with redis_server(tmp_path / "guarded", "--requirepass", "hunter2", "--save", "") as server:
        for url in (server.url, server.url.replace("127.0.0.1", "user:wrong@127.0.0.1")):
            error = await refusal(url)
            assert type(error) is AccessDenied
            assert "check user and password" in error.remedy
            assert "wrong" not in error.what
        with server.client(password="hunter2") as client:
            client.acl_setuser("app", enabled=True, passwords=["+p"], keys=["other:*"], commands=["+@all"])
            client.acl_setuser("poor", enabled=True, passwords=["+p"], keys=["*"], commands=["+@read", "+info"])
            client.acl_setuser("half", enabled=True, passwords=["+p"], keys=["*"], commands=["+@all", "-xdel"])
        for user in ("app", "poor", "half"):
            error = await refusal(server.url.replace("127.0.0.1", f"{user}:p@127.0.0.1"))
            assert type(error) is AccessDenied, user
            assert "docs/redis.md" in error.remedy


async def test_a_replica_is_waited_for(tmp_path: Path) -> None:
    with (
        redis_server(tmp_path / "one") as primary,
        redis_server(tmp_path / "two", "--replicaof", f"127.0.0.1 {primary.port}", "--save", "") as replica,
    ):
        error = await refusal(replica.url)
        assert type(error) is Unavailable
        assert "read-only replica" in error.what
        async with session_with(DatabaseOptions(url=primary.url)) as session:
            with primary.client() as client:
                fill(client, RedisOutbox(), 1)
                (m,) = await session.pending(LANE, 10)
                client.replicaof("127.0.0.1", free_port())  # it was demoted under us
                with pytest.raises(ConnectionLost, match="replica"):
                    await session.settle([(m.position, m.id)])
            with pytest.raises(ConnectionLost):
                await session.pending(LANE, 10)


async def test_a_server_that_would_remove_messages_is_refused(tmp_path: Path) -> None:
    limits = ("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--save", "")
    with redis_server(tmp_path / "cache", *limits) as server:
        error = await refusal(server.url)
        assert type(error) is ConfigurationError
        assert "noeviction" in error.remedy


async def test_keys_that_are_something_else(tmp_path: Path, client: Any, options: DatabaseOptions) -> None:
    client.set(f"{options.prefix}outbox", "mine")
    error = await refusal(options.url, prefix=options.prefix)
    assert type(error) is ConfigurationError
    assert "choose another prefix" in error.remedy
    client.delete(f"{options.prefix}outbox")


def test_there_are_no_schemas() -> None:
    with pytest.raises(ConfigurationError, match="no schemas"):
        source(DatabaseOptions(url="redis://h", schema="public"))


# --------------------------------------------------------------------------------------------------------------- advice


async def advice(url: str) -> str:
    return "\n".join(await source(DatabaseOptions(url=url)).advice())


async def test_what_would_serve_better(tmp_path: Path) -> None:
    with redis_server(tmp_path / "off") as server, server.client() as client:
        assert "nothing is written to disk" in await advice(server.url)
        client.config_set("save", "3600 1")
        assert "since the last snapshot" in await advice(server.url)
        client.config_set("appendonly", "yes")
        assert await advice(server.url) == ""
        client.config_set("maxmemory-policy", "volatile-lru")
        assert "volatile-lru" in await advice(server.url)
        client.config_set("maxmemory-policy", "allkeys-lru")
        assert "would remove messages" in await advice(server.url)
        client.config_set("maxmemory-policy", "noeviction")
        with redis_server(tmp_path / "replica", "--replicaof", f"127.0.0.1 {server.port}", "--save", ""):
            give_up = time.monotonic() + 20
            while "follow asynchronously" not in await advice(server.url):
                assert time.monotonic() < give_up
            client.config_set("min-replicas-to-write", 1)
            while "follow asynchronously" in (told := await bounded_advice(server.url)):
                assert time.monotonic() < give_up
                assert "min-replicas-to-write" in told


async def bounded_advice(url: str) -> str:
    """The server takes no write before its replica has told how far it is."""
    try:
        return await advice(url)
    except Unavailable as error:
        return f"follow asynchronously, {error.remedy}"


# ----------------------------------------------------------------------------------------------------------- going away


async def test_a_server_that_falls_silent_ends_the_session(options: DatabaseOptions) -> None:
    """D4: it accepts connections and never answers."""
    port = int(options.url.rpartition(":")[2].partition("/")[0])
    async with proxy("127.0.0.1", port) as between:
        through = replace(options, url=f"redis://127.0.0.1:{between.port}/0", timeout_s=0.5)
        async with session_with(through) as session:
            await session.pending(LANE, 10)
            between.silent = True
            with pytest.raises(DeadlineExceeded):
                await session.pending(LANE, 10)
            with pytest.raises(ConnectionLost):
                await session.settle([])
            with pytest.raises(RetryError):
                await source(through).connect()
            between.silent = False


async def test_a_wait_notices_a_server_that_falls_silent(options: DatabaseOptions) -> None:
    port = int(options.url.rpartition(":")[2].partition("/")[0])
    async with proxy("127.0.0.1", port) as between:
        through = replace(options, url=f"redis://127.0.0.1:{between.port}/0", timeout_s=0.5)
        async with session_with(through) as session:
            await session.pending(LANE, 10)
            between.silent = True
            with pytest.raises(RetryError):
                await _wait_often(session)
            between.silent = False


async def _wait_often(session: RedisSession) -> None:
    for _ in range(10):
        await session.wait(LANE, 0.2)


async def test_a_server_that_restarts_ends_the_session_and_keeps_what_was_committed(tmp_path: Path) -> None:
    """D5, A1: killed in the ordinary way of crashes; the append-only file has everything."""
    with redis_server(tmp_path / "aof", "--appendonly", "yes", "--save", "") as server:
        with server.client() as client:
            added = fill(client, RedisOutbox(), 5)
        async with session_with(DatabaseOptions(url=server.url)) as session:
            first, *_ = await session.pending(LANE, 10)
            assert await session.settle([(first.position, first.id)]) == 1
            server.kill()
            with pytest.raises(RetryError):
                await session.pending(LANE, 10)
            server.start()
            with pytest.raises(ConnectionLost):
                await session.pending(LANE, 10)
        async with session_with(DatabaseOptions(url=server.url)) as session:
            assert [m.id for m in await session.pending(LANE, 10)] == added[1:]


async def test_a_server_that_falls_back_is_recognised_by_the_receipts(tmp_path: Path) -> None:
    """A15: restored from an older snapshot. Settles are forgotten, positions are handed out again to other messages."""
    with redis_server(tmp_path / "new", "--appendonly", "no", "--save", "") as server:
        options, outbox = DatabaseOptions(url=server.url), RedisOutbox()
        with server.client() as client:
            published = fill(client, outbox, 3)
            client.save()
            shutil.copy(server.folder / "dump.rdb", server.folder / "backup.rdb")
            published += fill(client, outbox, 2)
        async with session_with(options) as session:
            rows = await session.pending(LANE, 10)
            receipts = Receipts([Receipt.of(rows, fence=1, counter=1, token=1, owner="a")])
            assert receipts.ranges() == [(1, 5)]
            assert await session.settle([(m.position, m.id) for m in rows]) == 5
        server.kill()
        shutil.copy(server.folder / "backup.rdb", server.folder / "dump.rdb")
        server.start()
        with server.client() as client:
            (other,) = fill(client, outbox, 1)  # it takes position 4, which a receipt names
        async with session_with(options) as session:
            held = await session.held(receipts.ranges())
            assert [i for _, i in held] == [*published[:3], other]
            assert await session.settle([(p, i) for p, i in zip(range(1, 6), published, strict=True)]) == 3
            assert [m.id for m in await session.pending(LANE, 10)] == [other]
            assert await session.reserve(receipts.highest() or 0) is True
            with server.client() as client:
                fill(client, outbox, 1)
            assert [m.position for m in await session.pending(LANE, 10)] == [4, 6]


async def test_sentinel_leads_to_the_primary(tmp_path: Path) -> None:
    """A fail-over: the session ends, the next one finds the new primary."""
    with (
        redis_server(tmp_path / "one") as one,
        redis_server(tmp_path / "two", "--replicaof", f"127.0.0.1 {one.port}", "--save", "") as two,
    ):
        file = tmp_path / "sentinel.conf"
        file.write_text(
            f"sentinel monitor orders 127.0.0.1 {one.port} 1\nsentinel down-after-milliseconds orders 300\n"
            "sentinel failover-timeout orders 3000\n"
        )
        with redis_server(tmp_path / "watch", str(file), "--sentinel") as watch:
            url = f"redis+sentinel://127.0.0.1:{watch.port}/orders"
            with one.client() as client, two.client() as follower:
                fill(client, RedisOutbox(), 2)
                await reached(lambda: follower.info("replication")["master_link_status"] == "up")
                client.wait(1, 5000)
            async with session_with(DatabaseOptions(url=url)) as session:
                assert len(await session.pending(LANE, 10)) == 2
                with watch.client() as asked:
                    await reached(lambda: asked.execute_command("SENTINEL", "REPLICAS", "orders"))
                one.kill()
                with pytest.raises(RetryError):
                    await session.pending(LANE, 10)
            found = await eventually(url)
            assert found == 2
            with pytest.raises(Unavailable, match="no Sentinel knows"):
                await source(DatabaseOptions(url=url.replace("orders", "others"))).connect()


async def reached(condition: Any) -> None:
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.05)


async def eventually(url: str) -> int:
    """How many messages wait at the primary, once there is one."""
    give_up = time.monotonic() + 30
    while True:
        try:
            async with session_with(DatabaseOptions(url=url, timeout_s=2.0)) as session:
                return len(await session.pending(LANE, 10))
        except RetryError:
            assert time.monotonic() < give_up
            await asyncio.sleep(0.1)


# -------------------------------------------------------------------------------------------------------- long backlogs


async def test_only_what_is_asked_for_is_read(client: Any, outbox: RedisOutbox, options: DatabaseOptions) -> None:
    """D7: a page costs the same wherever it is, and a lane that has nothing is not read twice."""
    with client.pipeline() as pipe:
        for n in range(3000):
            outbox.add(pipe, "orders", b"x" * 1000, key=str(n % 7))
        pipe.execute()
    async with session_with(options) as session:
        sent_before = traffic(client)
        assert len(await session.pending(LANE, 10)) == 10
        assert len(await session.below(LANE, 10, 100)) == 10
        assert traffic(client) - sent_before < 60_000
        taken = await slots(session)
        slot = next(s for s in range(256) if s not in taken)
        empty = Lane("orders", 0, slot, slot)
        assert await session.pending(empty, 100) == []
        sent_before = traffic(client)
        assert await session.pending(empty, 100) == []
        assert traffic(client) - sent_before < 10_000


async def slots(session: RedisSession) -> set[int]:
    return {slot_of(m.key, m.id) for m in await session.pending(LANE, 100)}


def traffic(client: Any) -> int:
    """Bytes that the server has sent to everybody."""
    return int(client.info("stats")["total_net_output_bytes"])


async def test_a_delayed_message_wakes_who_waits(client: Any, outbox: RedisOutbox, options: DatabaseOptions) -> None:
    """It may be due before the reader would look by itself."""
    async with session_with(options) as session:
        await session.pending(LANE, 10)
        waiting = asyncio.ensure_future(session.wait(LANE, 20.0))
        await asyncio.sleep(0.2)
        with client.pipeline() as pipe:
            outbox.add(pipe, "orders", {}, available_at=datetime.now(UTC) + timedelta(seconds=60))
            pipe.execute()
        await asyncio.wait_for(waiting, 5.0)


async def test_a_retry_of_the_library_is_no_concern_of_the_relay(options: DatabaseOptions) -> None:
    """A session never connects again by itself, though redis-py would."""
    async with session_with(options) as session:
        with redis.Redis.from_url(options.url) as admin:
            for connection in admin.client_list():
                if connection["name"] == "fencepost":
                    admin.client_kill_filter(_id=connection["id"])
        with pytest.raises(ConnectionLost):
            await session.pending(LANE, 10)


async def test_the_rights_that_the_page_lists_are_enough(tmp_path: Path) -> None:
    text = the_block(TREE / "docs" / "redis.md", "text", "rights").text
    lines = [line for line in text.replace("\n    ", " ").splitlines() if line.startswith("ACL")]
    with redis_server(tmp_path / "guarded") as server, server.client() as client:
        for line in lines:
            client.execute_command(*line.split())
        of_app, of_relay = (
            server.url.replace("127.0.0.1", f"{user}:secret@127.0.0.1") for user in ("shop_app", "shop_relay")
        )
        outbox, later = RedisOutbox(), datetime.now(UTC) + timedelta(seconds=0.2)
        with redis.Redis.from_url(of_app) as application, application.pipeline() as pipe:
            outbox.watch(pipe, "orders", "1")
            pipe.multi()
            outbox.add(pipe, "orders", {}, key="1", version=3)
            outbox.add(pipe, "orders", {}, key="1")
            outbox.add(pipe, "orders", {}, available_at=later)
            pipe.execute()
        await everything(DatabaseOptions(url=of_relay))
        store = lease_store(LeaseOptions(url=of_relay))
        await store.open()
        await store.rehearse()
        term = await store.acquire("lane", "a", 5.0)
        assert term is not None
        assert await store.renew(term, 5.0)
        await store.wait("lane", 0.1)
        await store.release(term)
        await store.close()
        denied = {entry["object"] for entry in client.acl_log() if entry["reason"] in {"command", "key", "channel"}}
        assert denied <= {"config|get"}  # which the page leaves open


async def everything(options: DatabaseOptions) -> None:
    """Every call of a relay."""
    async with session_with(options) as session:
        await asyncio.sleep(0.3)
        await session.release_due(10)
        first, second, third = await session.pending(LANE, 10)
        await session.below(LANE, third.position, 10)
        await session.held([(first.position, third.position)])
        await session.in_doubt([first], 1)
        await session.failed([(first, "no")])
        await session.pending(LANE, 10)
        await session.park([(first, "no")])
        assert await session.settle([(m.position, m.id) for m in (second, third)]) == 2
        await session.reserve(100)
        await session.wait(LANE, 0.1)
    await source(options).backlog()
    await source(options).advice()
