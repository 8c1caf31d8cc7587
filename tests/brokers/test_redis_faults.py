"""The Redis broker when things go wrong: answers that are lost, servers that fall silent, die, fall back, fill up."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from fencepost import app
from fencepost.config import load
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    Fenced,
    FencepostError,
    ParkError,
    RetryError,
    Unavailable,
)
from fencepost.message import Stored
from tests.brokers.redis_kit import Place, clean, ids, names
from tests.brokers.rows import ids as ids_of
from tests.brokers.rows import row, rows
from tests.databases.proxy import Proxy, proxy
from tests.docs.pages import TREE, the_block
from tests.redis_outbox.servers import RedisServer, redis_server
from tests.services import free_port

AOF = ("--appendonly", "yes", "--save", "")


@pytest.fixture
def place(redis_url: str, fresh_name: str) -> Place:
    """Keys of a test's own."""
    return Place(redis_url, fresh_name)


@pytest.fixture
def client(place: Place) -> Iterator[redis.Redis]:
    """A plain client; what the test has made is removed at the end."""
    with redis.Redis.from_url(place.url) as made:
        yield made
        clean(made, place.prefix)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of a test's own, which writes each change to its file."""
    with redis_server(tmp_path / "server", *AOF) as made:
        yield made


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def orders(place: Place, client: Any) -> list[str]:
    return ids(client, f"{place.prefix}orders")


# -- the network ---------------------------------------------------------------------------------------------------


def _losing(between: Proxy) -> None:
    """Answers that say "published" get lost."""
    between.changed = lambda data: b"" if data == b"*1\r\n$9\r\npublished\r\n" else data


async def test_a_batch_whose_answer_is_lost_is_named_by_its_receipt(place: Place, client: redis.Redis) -> None:
    """A5, B8: late is not lost, and not sent again."""
    async with proxy("127.0.0.1", port_of(place.url)) as between:
        batch = rows(20)
        async with place.opened(url=f"redis://127.0.0.1:{between.port}/0", timeout_s=0.7) as one:
            handoff = await place.owner(one)
            _losing(between)
            with pytest.raises(DeadlineExceeded, match=r"did not answer within 0.7 s"):
                await handoff.publish(batch)
            with pytest.raises(ConnectionLost):
                await handoff.publish(batch)
            between.changed = bytes
            assert (await place.owner(one, 2)).receipts.named() == names(batch)
        assert orders(place, client) == ids_of(batch)


async def test_a_batch_that_arrives_after_the_next_take_over_is_refused(place: Place, client: redis.Redis) -> None:
    """A10: the bytes lay in the network meanwhile."""
    async with proxy("127.0.0.1", port_of(place.url)) as between:
        first, late = row(1), rows(20, start=2)
        async with place.opened(url=f"redis://127.0.0.1:{between.port}/0", timeout_s=0.7) as one:
            handoff = await place.owner(one)
            await handoff.publish([first])  # from now on the stream is known: nothing is asked before a batch
            between.silent = True
            with pytest.raises(DeadlineExceeded):
                await handoff.publish(late)
            async with place.handoff(2) as successor:
                assert successor.receipts.named() == names([first])
                before = _scripts_run(client)
                between.silent = False
                while _scripts_run(client) == before:  # now it arrives
                    await asyncio.sleep(0.01)
                assert orders(place, client) == [first.id]
                await successor.publish(late)
        assert orders(place, client) == ids_of([first, *late])


def _scripts_run(client: redis.Redis) -> int:
    """How often any script has been run on the server."""
    info: Any = client.info("commandstats")
    return int(info["cmdstat_evalsha"]["calls"])


async def test_a_connection_that_is_cut_is_made_again(place: Place, client: redis.Redis) -> None:
    """D5"""
    async with place.opened() as one:
        handoff = await place.owner(one)
        await handoff.publish([row(1)])
        _cut(client)
        with pytest.raises(ConnectionLost):
            await handoff.publish([row(2)])
        again = await place.owner(one, 2)
        assert len(again.receipts) == 1
        await again.publish([row(2)])
    assert len(orders(place, client)) == 2


def _cut(client: redis.Redis) -> None:
    listed: Any = client.client_list()
    for each in listed:
        if each["name"] == "fencepost-broker":
            client.client_kill_filter(_id=each["id"])


async def test_a_server_that_is_stopped_for_a_while(server: RedisServer, fresh_name: str) -> None:
    """D4: every call has a deadline; closing waits for nothing."""
    place = Place(server.url, fresh_name)
    async with place.opened(timeout_s=0.7) as one, place.opened(timeout_s=20.0) as patient:
        handoff, batch = await place.owner(one), rows(20)
        waiting = await place.owner(patient)
        with server.stopped():
            with pytest.raises(DeadlineExceeded):
                await handoff.publish(batch)
            with pytest.raises(RetryError):
                await place.owner(one, 2)
            publishing = asyncio.ensure_future(waiting.publish(batch))
            await asyncio.sleep(0.05)
            await asyncio.wait_for(patient.close(), 2.0)
            with pytest.raises(ConnectionLost, match="was closed"):
                await asyncio.wait_for(publishing, 2.0)
        successor = await place.owner(one, 3)
        if not names(batch) <= successor.receipts.named():
            await successor.publish(batch)
        with server.client() as client:
            assert orders(place, client) == ids_of(batch)


# -- a server that dies, and what its file has -----------------------------------------------------------------------


async def _publish_on(handoff: Any, batches: list[list[Stored]]) -> None:
    """One batch after the other, until it goes wrong. They are noted before they are sent."""
    for _ in range(50):
        batches.append(rows(40, start=40 * len(batches) + 1))
        await handoff.publish(batches[-1])


async def test_a_killed_server_has_each_batch_with_its_receipt_or_neither(server: RedisServer, fresh_name: str) -> None:
    """A8: kill -9 under load, three times."""
    place, expected = Place(server.url, fresh_name), list[str]()
    for n in range(3):
        batches: list[list[Stored]] = []
        async with place.handoff(n) as handoff:
            publishing = asyncio.ensure_future(_publish_on(handoff, batches))
            while not (publishing.done() or len(batches) > 4 + n):
                await asyncio.sleep(0.001)
            server.kill()
            with suppress(RetryError):
                await publishing
        server.start()
        named = await place.named()
        published = [batch for batch in batches if names(batch) <= named]
        assert len(published) >= len(batches) - 1
        assert not any(names(batch) & named for batch in batches[len(published) :])
        expected += [m.id for batch in published for m in batch]
        with server.client() as client:
            assert orders(place, client) == expected


async def test_a_file_that_ends_in_the_middle_of_a_batch_has_nothing_of_it(
    tmp_path: Path, server: RedisServer, fresh_name: str
) -> None:
    """What a crash of the machine leaves: a script's writes are one transaction in the append-only file."""
    place, first, second = Place(server.url, fresh_name), rows(20), rows(20, start=21)
    async with place.handoff() as handoff:
        await handoff.publish(first)
        file = _append_only_file(server)
        before = file.stat().st_size
        await handoff.publish(second)
    server.kill()
    size = file.stat().st_size
    assert file.read_bytes()[before:].startswith(b"*1\r\n$5\r\nMULTI\r\n")
    whole = tmp_path / "whole"
    shutil.copytree(server.folder, whole)
    for end, expected in ((size, [*first, *second]), (size - 3, first), ((before + size) // 2, first)):
        shutil.rmtree(server.folder)
        shutil.copytree(whole, server.folder)
        with file.open("r+b") as torn:
            torn.truncate(end)
        server.start()
        with server.client() as client:
            assert orders(place, client) == ids_of(expected)
        assert await place.named() == names(expected)
        server.kill()


def _append_only_file(server: RedisServer) -> Path:
    (found,) = server.folder.glob("appendonlydir/*.incr.aof")
    return found


async def test_a_server_that_forgot_a_take_over_lets_nobody_publish_for_two(place: Place, client: redis.Redis) -> None:
    """It counts the same fence again: the claim tells the two owners apart."""
    async with place.handoff(1) as old:
        clean(client, place.prefix)  # as a fail-over that lost the last writes
        async with place.handoff(2) as new:
            assert (old._fence, new._fence) == (1, 1)
            with pytest.raises(Fenced, match=r"refused owner 'relay-1'.*'relay-2' has taken it over"):
                await old.publish([row(1)])
            await new.publish([row(1)])
        clean(client, place.prefix)
        async with place.handoff(3) as third:
            clean(client, place.prefix)
            with pytest.raises(Fenced, match=r"its keys are gone.*no FLUSHALL, no DEL"):
                await third.publish([row(2)])
    assert client.exists(f"{place.prefix}orders") == 0


# -- replicas --------------------------------------------------------------------------------------------------------


async def test_with_wait_replicas_a_batch_counts_when_they_have_it(
    server: RedisServer, tmp_path: Path, fresh_name: str
) -> None:
    """A15: and a fail-over to such a replica loses nothing."""
    place, batch, next_batch = Place(server.url, fresh_name), rows(20), rows(20, start=21)
    follow = ("--replicaof", f"127.0.0.1 {server.port}", "--save", "")
    with server.client() as client:
        client.config_set("repl-diskless-sync-delay", 0)
    with redis_server(tmp_path / "replica", *follow) as replica, replica.client() as there:
        async with place.opened(wait_replicas=1, timeout_s=1.0) as one:
            handoff = await _owner_in_time(place, one)
            await handoff.publish(batch)
            assert orders(place, there) == ids_of(batch)
            with replica.stopped():
                with pytest.raises(Unavailable, match="0 replicas of 1 has"):
                    await handoff.publish(next_batch)
                with pytest.raises(Unavailable, match="0 replicas"):  # nothing may be settled by these receipts
                    await place.owner(one, 2)
            assert (await _owner_in_time(place, one)).receipts.named() == names([*batch, *next_batch])
        server.kill()
        there.replicaof("NO", "ONE")
        promoted = Place(replica.url, fresh_name)
        assert await promoted.named() == names([*batch, *next_batch])
        assert orders(place, there) == ids_of([*batch, *next_batch])


async def _owner_in_time(place: Place, one: Any) -> Any:
    """A take-over as soon as the replica follows."""
    give_up = time.monotonic() + 20
    while True:
        try:
            return await place.owner(one, 9)
        except Unavailable:
            assert time.monotonic() < give_up


async def test_a_primary_that_becomes_a_replica_ends_the_handoff(server: RedisServer, fresh_name: str) -> None:
    place = Place(server.url, fresh_name)
    async with place.opened() as one:
        handoff = await place.owner(one)
        with server.client() as client:
            client.replicaof("127.0.0.1", free_port())
            with pytest.raises(ConnectionLost, match="replica"):
                await handoff.publish([row(1)])
            with pytest.raises(Unavailable, match="read-only replica"):
                await place.owner(one, 2)
            client.replicaof("NO", "ONE")
            await (await place.owner(one, 3)).publish([row(1)])
            assert len(orders(place, client)) == 1


# -- servers and users that will not do --------------------------------------------------------------------------------


async def refusal(place: Place, **settings: Any) -> FencepostError:
    """What opening says."""
    one = place.broker(timeout_s=2.0, **settings)
    with pytest.raises(FencepostError) as caught:
        await one.open()
    await one.close()
    return caught.value


async def test_a_server_that_is_not_there(fresh_name: str) -> None:
    error = await refusal(Place(f"redis://user:hunter2@127.0.0.1:{free_port()}/0", fresh_name))
    assert type(error) is Unavailable
    assert "is the server running" in error.remedy
    assert "hunter2" not in str(error)


async def test_a_full_server_takes_nothing_of_a_batch(server: RedisServer, fresh_name: str) -> None:
    place = Place(server.url, fresh_name)
    with server.client() as client:
        async with place.opened() as one:
            handoff = await place.owner(one)
            client.config_set("maxmemory", "1mb")
            with pytest.raises(Unavailable, match="no memory left"):
                await handoff.publish(rows(20))
            assert orders(place, client) == []
            client.config_set("maxmemory", "0")
            await (await place.owner(one, 2)).publish(rows(20))
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", "100mb")
        error = await refusal(place)
    assert type(error) is ConfigurationError
    assert "noeviction" in error.remedy


async def test_a_server_with_lower_limits_is_believed(server: RedisServer, fresh_name: str) -> None:
    """E1: a value that it does not take would end the connection, each time."""
    place = Place(server.url, fresh_name)
    with server.client() as client:
        client.config_set("proto-max-bulk-len", "1mb")
        client.config_set("client-query-buffer-limit", "3mb")
        large, good = row(1, payload=bytes(1_100_000)), rows(12, start=2, payload=bytes(700_000))
        async with place.handoff() as handoff:
            (failure,) = (await handoff.publish([large, *good])).failed
            assert failure.message is large
            assert isinstance(failure.error, ParkError)
            assert failure.error.at_once
            await handoff.publish(good)
            assert len(handoff.receipts) == 6
        assert orders(place, client) == ids_of(good)


async def test_users_without_rights_write_nothing(server: RedisServer, fresh_name: str) -> None:
    place = Place(server.url, fresh_name)
    with server.client() as client:
        for name, commands in {
            "all": ["+@all"],
            "no-hincrby": ["+@all", "-hincrby"],
            "no-xadd": ["+@all", "-xadd"],
        }.items():
            client.acl_setuser(name, enabled=True, passwords=["+hunter2"], keys=[f"{place.prefix}*"], commands=commands)
        for name, lacking in (("no-hincrby", "HINCRBY"), ("no-xadd", "XADD")):
            async with place.opened(url=_as(server, name)) as one:
                with pytest.raises(AccessDenied, match=f"may not use {lacking} on"):
                    await one.rehearse(place.lane)
        async with place.opened(url=_as(server, "all")) as one:
            await one.rehearse(place.lane)
            async with place.opened(url=_as(server, "all"), prefix="other:") as other:
                with pytest.raises(AccessDenied):
                    await other.rehearse(place.lane)
            assert client.keys() == []
            handoff = await place.owner(one)
            client.acl_setuser("all", commands=["-xadd"])
            with pytest.raises(AccessDenied, match="can't run this command"):
                await handoff.publish(rows(3))
        assert orders(place, client) == []
        error = await refusal(place, url=_as(server, "all").replace("hunter2", "hunter3"))
        assert type(error) is AccessDenied
        assert "hunter3" not in str(error)


def _as(server: RedisServer, user: str) -> str:
    return server.url.replace("127.0.0.1", f"{user}:hunter2@127.0.0.1")


async def test_the_rights_of_the_documentation_suffice(server: RedisServer, fresh_name: str) -> None:
    text = the_block(TREE / "docs" / "redis-streams.md", "rights").text
    line = " ".join(re.sub(r"#.*", "", text).split())
    with server.client() as client:
        client.execute_command(*line.split())
        place = Place(server.url.replace("127.0.0.1", "shop_publisher:secret@127.0.0.1"), fresh_name)
        async with place.opened(prefix="") as one:
            await one.rehearse(place.lane)
            await one.advice()
            await one.prepare(place.lane, ["orders"])
            handoff = await place.owner(one)
            await handoff.publish([row(1)])
            mixed = [row(2), row(3, topic="elsewhere"), row(4, topic="elsewhere")]
            failed = (await handoff.publish(mixed)).failed
            assert [f.message for f in failed] == mixed[1:]
            assert all(f.whole_topic and type(f.error) is AccessDenied for f in failed)
            client.script_flush()
            await (await place.owner(one, 2)).publish([row(2)])
        assert client.xlen("orders") == 2


async def test_in_a_cluster_all_keys_share_the_hash_tag(tmp_path: Path, fresh_name: str) -> None:
    options = ("--save", "", "--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with redis_server(tmp_path / "cluster", *options) as node, node.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO", NEVER_DECODE=True):
            continue
        place, batch = Place(node.url, fresh_name), [row(1), row(2, topic="payments"), row(3)]
        error = await refusal(place)
        assert type(error) is ConfigurationError
        assert "hash tag" in error.remedy
        async with place.handoff(prefix="{shop}:") as handoff:
            await handoff.publish(batch)
        assert await place.named(prefix="{shop}:") == names(batch)
        assert (client.xlen("{shop}:orders"), client.xlen("{shop}:payments")) == (2, 1)


async def test_what_the_check_says_of_a_server_that_keeps_nothing(tmp_path: Path, fresh_name: str) -> None:
    """It warns; exactly-once is possible all the same, as long as the server lives."""
    with redis_server(tmp_path / "memory") as server, server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        values = {
            "RELAY__NAME": "orders",
            "RELAY__DELIVERY": "exactly-once",
            "DATABASE__URL": f"sqlite:///{tmp_path}/orders.db",
            "BROKER__URL": server.url,
            "BROKER__PREFIX": "shop:",
        }
        config = load(None, {f"FENCEPOST_{name}": value for name, value in values.items()})
        await app.schema(config).apply()
        report = await app.check(config)
        assert client.keys() == []
    assert (report.ok, report.delivery_in_force) == (True, "exactly-once")
    said = [f.what for f in report.findings if (f.part, f.level) == ("broker", "warning")]
    assert [("nothing is written to disk" in what, "allkeys-lru would remove" in what) for what in said] == [
        (True, False),
        (False, True),
    ]
