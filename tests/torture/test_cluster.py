"""Three nodes of one broker: they find each other, one goes and comes back, and what is missing is said."""

from __future__ import annotations

import asyncio
import signal
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.errors import NoStreamResponseError

from fencepost import app
from fencepost.clock import SYSTEM_CLOCK
from fencepost.demo.place import place
from fencepost.errors import ConfigurationError, MissingExtra, Unavailable
from fencepost.ports import Delivery, Lane
from fencepost.testing.torture import cluster as clusters
from fencepost.testing.torture import kafka_nodes, nats_nodes
from fencepost.testing.torture.cluster import Cluster, Node, Nodes
from fencepost.testing.torture.command import torture
from fencepost.testing.torture.nodes import own_cluster
from fencepost.testing.torture.records import TortureOptions
from fencepost.testing.torture.run import demo_options

pytestmark = pytest.mark.torture


async def published(stream: JetStreamContext, payload: bytes) -> None:
    """With an id, so that it is there once, however often it must be sent until a new leader is elected."""
    headers = {"Nats-Msg-Id": uuid.uuid4().hex}
    while True:
        try:
            await stream.publish("s", payload, timeout=1, headers=headers)
        except (NoStreamResponseError, nats.errors.TimeoutError):
            await asyncio.sleep(0.1)
        else:
            return


async def test_a_node_that_was_killed_has_caught_up_before_the_next_one_goes() -> None:
    """Each of the three alone has all that was written while it was away."""
    async with own_cluster(None, SYSTEM_CLOCK) as cluster, asyncio.timeout(60):
        client = await nats.connect(f"nats://{cluster.url.split(',')[1]}", allow_reconnect=False)
        stream = client.jetstream()
        await stream.add_stream(name="S", subjects=["s"], num_replicas=int(str(cluster.settings["replicas"])))
        await published(stream, b"before")
        for node in cluster._nodes[::2]:  # not the one that we are connected to
            async with cluster.turn():
                await node.end(by_force=True)
                assert await cluster._whole() is False, "who has gone is missed at once"
                await published(stream, b"meanwhile")
                await node.start()
                await cluster._until_whole()
            info = await stream.stream_info("S")
            assert info.cluster is not None
            assert [replica.current for replica in info.cluster.replicas or ()] == [True, True]
        assert (await stream.stream_info("S")).state.messages == 3
        await client.close()
        folder = cluster.logs[0].parent
    assert not folder.exists()


async def test_what_the_relays_create_has_a_copy_on_every_node() -> None:
    """The stream, and the receipts in it: as a relay makes them that is started by the command."""
    wanted = TortureOptions(cluster=True)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(own_cluster(None, SYSTEM_CLOCK))
        at = await stack.enter_async_context(place(demo_options(wanted, None, cluster), SYSTEM_CLOCK, "torture"))
        broker = app.broker(at.config)
        stack.push_async_callback(broker.close)
        assert (await broker.open()).delivery is Delivery.ATOMIC
        await broker.prepare(Lane(at.config.relay.name))
        client = await nats.connect(f"nats://{cluster.url.rpartition(',')[2]}", allow_reconnect=False)
        stack.push_async_callback(client.close)
        (info,) = await client.jetstream().streams_info()
        assert info.config.num_replicas == 3
        assert any(subject.startswith("fencepost.receipt.") for subject in info.config.subjects or ())


async def test_a_node_that_ends_by_itself_is_an_error(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    nodes = [Node("node-1", ["sh", "-c", "echo out of luck; exit 3"], tmp_path / "node-1.log")]
    cluster = Cluster(Nodes("x://", {}, nodes, never), SYSTEM_CLOCK)
    with pytest.raises(Unavailable, match="node-1 ended with 3: out of luck"):
        await cluster.start()


async def test_a_cluster_that_does_not_become_whole_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never() -> bool:
        return False

    monkeypatch.setattr(clusters, "_WHOLE_S", 0.2)
    cluster = Cluster(Nodes("x://", {}, [Node("node-1", ["sleep", "60"], tmp_path / "log")], never), SYSTEM_CLOCK)
    try:
        with pytest.raises(Unavailable, match=r"not whole within 0\.2 s: node-1: it wrote nothing"):
            await cluster.start()
    finally:
        await cluster.stop()
    cluster._nodes[0].send(signal.SIGSTOP)  # nobody is there any more


async def test_who_waits_too_long_for_its_turn_leaves_its_node_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def always() -> bool:
        return True

    monkeypatch.setattr(clusters, "TURN_S", 0.05)
    cluster = Cluster(Nodes("x://", {}, [], always), SYSTEM_CLOCK)
    async with cluster.turn():
        with pytest.raises(Unavailable, match=r"another node was away for 0\.05 s"):
            async with cluster.turn():
                pass
    async with cluster.turn():
        pass


async def test_a_node_that_does_not_answer_is_not_there() -> None:
    """Nobody listens there, or somebody who says nothing like it."""
    assert await nats_nodes._is_well(9, "node-1") is False
    assert await kafka_nodes._answers(9) is False


async def test_without_kafka_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.touch(0o755)
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtra, match=f"there are none in {tmp_path}/libs") as error:
        await kafka_nodes.kafka_nodes(tmp_path, SYSTEM_CLOCK)
    assert "KAFKA_HOME" in error.value.remedy
    java.unlink()
    with pytest.raises(MissingExtra, match="needs java"):
        await kafka_nodes.kafka_nodes(tmp_path, SYSTEM_CLOCK)


@pytest.mark.parametrize("broker", ["nats://h:1", "kafka://h:1", "sqs://"])
def test_a_broker_with_an_address_is_not_its_own(broker: str) -> None:
    with pytest.raises(ConfigurationError, match="--cluster brings a broker of its own"):
        torture(cluster=True, broker=broker)
    with pytest.raises(ConfigurationError, match="--cluster brings a broker of its own"):
        torture(cluster=True, restart_broker=["true"])
