"""Adding messages: in MULTI/EXEC of both clients, in a script, and what is refused before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.cluster

from fencepost.databases.redis import NewMessage, RedisOutbox, source, with_version
from fencepost.databases.redis.entry import digest
from fencepost.errors import ConfigurationError, FixError, MessageRefused, NoTransaction, VersionConflict
from fencepost.message import Stored
from fencepost.ports import DatabaseOptions, Lane
from tests.redis_outbox.servers import redis_server
from tests.services import free_port

LANE = Lane("orders")


async def pending(options: DatabaseOptions) -> Sequence[Stored]:
    """What a relay would read."""
    session = await source(options).connect()
    try:
        return await session.pending(LANE, 1000)
    finally:
        await session.close()


async def test_a_transaction_adds_the_business_and_its_message(
    client: Any, outbox: RedisOutbox, options: DatabaseOptions
) -> None:
    with client.pipeline() as pipe:
        pipe.set(f"{options.prefix}order:1", "placed")
        message = outbox.add(pipe, "orders", {"id": 1}, key="1", type="placed")
        assert client.get(f"{options.prefix}order:1") is None
        assert await pending(options) == []
        replies = pipe.execute()
    (found,) = await pending(options)
    assert (found.id, found.payload, found.key) == (message.id, b'{"id":1}', "1")
    assert (found.version, found.type) == (1, "placed")
    assert message.version is None
    assert with_version(message, replies[1]).version == 1
    assert client.get(f"{options.prefix}order:1") == b"placed"


async def test_a_transaction_that_is_given_up_adds_nothing(
    client: Any, outbox: RedisOutbox, options: DatabaseOptions
) -> None:
    with client.pipeline() as pipe:
        outbox.add(pipe, "orders", {}, key="1")
    with client.pipeline() as pipe:
        outbox.add(pipe, "orders", {}, key="1")
        replies = pipe.execute()
    assert replies == [[b"1", b"1"]]
    assert len(await pending(options)) == 1


async def test_a_watched_key_that_changes_aborts_both(
    client: Any, outbox: RedisOutbox, options: DatabaseOptions
) -> None:
    name = f"{options.prefix}stock"
    with client.pipeline() as pipe:
        pipe.watch(name)
        pipe.multi()
        pipe.decr(name)
        outbox.add(pipe, "stock", {})
        client.set(name, 7)
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert await pending(options) == []


async def test_async_pipelines_are_the_same(aclient: Any, outbox: RedisOutbox, options: DatabaseOptions) -> None:
    async with aclient.pipeline() as pipe:
        outbox.add_all(pipe, [NewMessage("orders", {"n": n}, key="1") for n in range(3)])
        assert await pipe.execute() == [[b"1", b"1"], [b"2", b"2"], [b"3", b"3"]]
        watched: Any = outbox.watch(pipe, "orders", "1")
        assert await watched == 3
        pipe.multi()
        outbox.add(pipe, "orders", {}, key="1", version=9)
        assert await pipe.execute() == [[b"4", b"9"]]
    assert [m.version for m in await pending(options)] == [1, 2, 3, 9]


def test_what_is_not_a_transaction_is_refused(client: Any, outbox: RedisOutbox) -> None:
    with pytest.raises(NoTransaction, match=r"pass a pipeline"):
        outbox.add(client, "orders", {})
    with client.pipeline(transaction=False) as pipe, pytest.raises(NoTransaction, match="no MULTI"):
        outbox.add(pipe, "orders", {})
    with client.pipeline() as pipe:
        pipe.watch("anything")
        with pytest.raises(NoTransaction, match=r"call multi\(\) first"):
            outbox.add(pipe, "orders", {})
        assert len(pipe) == 0
    with pytest.raises(ConfigurationError, match="cannot be added to dict"):
        outbox.add({}, "orders", {})


def test_a_bad_message_queues_nothing(client: Any, outbox: RedisOutbox) -> None:
    with client.pipeline() as pipe:
        good = NewMessage("orders", {})
        for bad in (replace_topic(good), NewMessage("orders", {1, 2}), NewMessage("orders", {}, key=" x")):
            with pytest.raises(MessageRefused):
                outbox.add_all(pipe, [good, bad])
        assert len(pipe) == 0


def replace_topic(message: NewMessage) -> NewMessage:
    return message._replace(topic="no such topic!")


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="versions="):
        RedisOutbox(versions="newest")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="prefix"):
        RedisOutbox(prefix="")


# ------------------------------------------------------------------------------------------------------------- versions


async def test_versions_are_counted_for_each_entity(client: Any, outbox: RedisOutbox, options: DatabaseOptions) -> None:
    with client.pipeline() as pipe:
        for topic, key in (("a", "1"), ("a", "2"), ("b", "1"), ("a", "1"), ("a", None)):
            outbox.add(pipe, topic, {}, key=key)
        pipe.execute()
    assert [m.version for m in await pending(options)] == [1, 1, 1, 2, None]


async def test_positions_serve_as_versions_and_leave_nothing_behind(client: Any, options: DatabaseOptions) -> None:
    outbox = RedisOutbox(prefix=options.prefix, versions="position")
    with client.pipeline() as pipe:
        for key in ("1", "2", "1"):
            outbox.add(pipe, "a", {}, key=key)
        outbox.add(pipe, "a", {}, key="1", version=77)
        pipe.execute()
    assert [(m.position, m.version) for m in await pending(options)] == [(1, 1), (2, 2), (3, 3), (4, 77)]
    assert list(client.scan_iter(match=f"{options.prefix}entity*")) == []


def test_ones_own_version_needs_a_watch(client: Any, outbox: RedisOutbox) -> None:
    with client.pipeline() as pipe:
        with pytest.raises(ConfigurationError, match=r"call outbox\.watch"):
            outbox.add(pipe, "orders", {}, key="1", version=1)
        outbox.watch(pipe, "orders", "1")
        pipe.multi()
        outbox.add(pipe, "orders", {}, key="1", version=1)
        pipe.execute()
        with pytest.raises(ConfigurationError, match=r"call outbox\.watch"):  # the next transaction
            outbox.add(pipe, "orders", {}, key="1", version=2)
        pipe.set("x", 1)
        with pytest.raises(NoTransaction, match=r"watch before multi"):
            outbox.watch(pipe, "orders", "1")


async def test_a_version_that_is_not_newer_is_refused_before_anything_is_queued(
    client: Any, outbox: RedisOutbox, options: DatabaseOptions
) -> None:
    with client.pipeline() as pipe:
        assert outbox.watch(pipe, "orders", "1") == 0
        pipe.multi()
        outbox.add(pipe, "orders", {}, key="1", version=5)
        outbox.add(pipe, "orders", {}, key="1")
        for version in (5, 6):
            with pytest.raises(VersionConflict, match="is not newer"):
                outbox.add(pipe, "orders", {}, key="1", version=version)
        outbox.add(pipe, "orders", {}, key="1", version=2**63 - 2)
        outbox.add(pipe, "orders", {}, key="1")
        pipe.execute()
    assert [m.version for m in await pending(options)] == [5, 6, 2**63 - 2, 2**63 - 1]


async def test_somebody_else_at_the_entity_aborts_the_transaction(
    client: Any, outbox: RedisOutbox, options: DatabaseOptions
) -> None:
    """A lost race: neither the business nor the message is written."""
    with client.pipeline() as pipe, client.pipeline() as other:
        last = outbox.watch(pipe, "orders", "1")
        assert isinstance(last, int)
        pipe.multi()
        pipe.set(f"{options.prefix}order:1", "mine")
        outbox.add(pipe, "orders", {}, key="1", version=last + 1)
        outbox.add(other, "orders", {}, key="1")
        other.execute()
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert client.get(f"{options.prefix}order:1") is None
    assert len(await pending(options)) == 1


# -------------------------------------------------------------------------------------------------------------- scripts

PLACE = """
local added = fencepost_add(2, ARGV[2])
redis.call('SET', KEYS[1], ARGV[1])
return added
"""


async def test_a_script_of_the_application_adds_a_message(
    client: Any, outbox: RedisOutbox, options: DatabaseOptions
) -> None:
    place = client.register_script(outbox.script(PLACE))
    added = outbox.prepare("orders", {"id": 1}, key="1")
    reply = place(keys=[f"{options.prefix}order:1", *added.keys], args=["placed", added.argument])
    (found,) = await pending(options)
    assert (found.id, found.version) == (added.message.id, with_version(added.message, reply).version)
    assert client.get(f"{options.prefix}order:1") == b"placed"


async def test_a_conflict_ends_the_script_before_it_writes(
    client: Any, outbox: RedisOutbox, options: DatabaseOptions
) -> None:
    place = client.register_script(outbox.script(PLACE))
    for version, refused in ((2, False), (2, True), (1, True), (10, False), (9, True), (2**62, False)):
        added = outbox.prepare("orders", {}, key="1", version=version)
        call = {"keys": [f"{options.prefix}order:1", *added.keys], "args": [str(version), added.argument]}
        if refused:
            with pytest.raises(redis.ResponseError, match="CONFLICT version"):
                place(**call)
        else:
            place(**call)
    assert client.get(f"{options.prefix}order:1") == str(2**62).encode()
    assert [m.version for m in await pending(options)] == [2, 10, 2**62]


async def test_a_script_that_the_server_forgot_is_no_loss(
    client: Any, outbox: RedisOutbox, options: DatabaseOptions
) -> None:
    """An unknown script inside EXEC would let the business through without its message."""
    with client.pipeline() as pipe:
        outbox.add(pipe, "orders", {})
        outbox.add(pipe, "orders", {})
        client.script_flush()
        pipe.execute()
        outbox.add(pipe, "orders", {})
        client.script_flush()
        pipe.execute()
    assert len(await pending(options)) == 3


# ------------------------------------------------------------------------------------------------------- on the server


async def test_the_digest_is_what_the_server_would_compute(client: Any, outbox: RedisOutbox) -> None:
    message_id = outbox.prepare("orders", {}).message.id
    script = "return string.format('%.0f', tonumber(string.sub(redis.sha1hex(ARGV[1]), 1, 13), 16))"
    found = client.eval(script, 0, message_id)
    assert int(found) == digest(message_id)


async def test_a_counter_that_somebody_deleted_is_found_again(
    client: Any, outbox: RedisOutbox, options: DatabaseOptions
) -> None:
    """C5: also where the last message was a delayed one, and every entry is gone."""
    later = datetime.now(UTC) + timedelta(hours=1)
    for available_at in (None, later):
        with client.pipeline() as pipe:
            outbox.add(pipe, "orders", {}, available_at=available_at)
            pipe.execute()
    client.xtrim(f"{options.prefix}outbox", maxlen=0)
    client.delete(f"{options.prefix}position")
    with client.pipeline() as pipe:
        outbox.add(pipe, "orders", {})
        outbox.add(pipe, "orders", {})
        assert pipe.execute() == [[b"3", b""], [b"4", b""]]


def test_a_full_server_writes_neither(tmp_path: Path) -> None:
    """Nothing is done by halves, also where the memory ends between the queueing and EXEC: by the script's header the
    server knows what a script may need.
    """
    with redis_server(tmp_path / "full") as server, server.client() as client:
        client.set("filling", b"x" * 3_000_000)
        for late in (False, True):
            client.config_set("maxmemory", 0 if late else 1_000_000)
            with client.pipeline() as pipe:
                pipe.expire("filling", 1000)  # allowed on a full server
                RedisOutbox().add(pipe, "orders", {}, key="1")
                with pytest.raises(redis.RedisError, match=r"maxmemory|OOM"):
                    step_by_step(client, pipe) if late else pipe.execute()
            assert client.ttl("filling") == -1
            assert client.xlen("fencepost_outbox") == 0


def step_by_step(client: Any, pipe: Any) -> None:
    """Queue the commands of a pipeline, let the memory end, execute them."""
    with client.client() as other:
        for words in (("MULTI",), *(args for args, _ in pipe.command_stack)):
            other.execute_command(*words)
        client.config_set("maxmemory", 1_000_000)
        other.execute_command("EXEC")


async def test_in_a_cluster_all_keys_share_the_hash_tag(tmp_path: Path) -> None:
    options = ("--save", "", "--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with redis_server(tmp_path / "cluster", *options) as server, server.client() as node:
        node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        while b"cluster_state:ok" not in node.execute_command("CLUSTER", "INFO", NEVER_DECODE=True):
            continue
        with redis.cluster.RedisCluster(host="127.0.0.1", port=server.port) as cluster:
            outbox = RedisOutbox(prefix="{shop}:fencepost:")
            with cluster.pipeline(transaction=True) as pipe:
                pipe.set("{shop}:order:1", "placed")
                outbox.add(pipe, "orders", {}, key="1")
                outbox.add(pipe, "orders", {}, key="1")
                assert pipe.execute()[1:] == [[b"1", b"1"], [b"2", b"2"]]
            with cluster.pipeline() as pipe, pytest.raises(NoTransaction):
                outbox.add(pipe, "orders", {})
        place = DatabaseOptions(url=server.url, prefix="{shop}:fencepost:")
        assert [m.version for m in await pending(place)] == [1, 2]
        for url in (server.url, server.url.replace("redis:", "redis+cluster:")):
            with pytest.raises(ConfigurationError, match=r"hash tag"):
                await pending(replace(place, url=url, prefix="fencepost_"))


async def test_what_is_no_message_is_named(client: Any, outbox: RedisOutbox, options: DatabaseOptions) -> None:
    with client.pipeline() as pipe:
        outbox.add(pipe, "orders", {})
        pipe.execute()
    client.xadd(f"{options.prefix}outbox", {"temperature": "20"}, id="2-7")
    with pytest.raises(FixError, match=r"the entry 2-7"):
        await pending(options)
