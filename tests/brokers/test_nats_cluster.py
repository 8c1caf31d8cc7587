"""A cluster of three servers whose stream is on all of them: the leader dies, the promises stay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import nats
import pytest

from fencepost.errors import Fenced, FencepostError, RetryError
from fencepost.ports import Broker, Delivery, Handoff
from tests.brokers.nats_kit import OwnNats, Place
from tests.brokers.rows import payloads, row, rows, term
from tests.services import free_port

pytestmark = [pytest.mark.long, pytest.mark.torture]

CONFIG = """
server_name: n%d
cluster { name: c, listen: "127.0.0.1:%d", routes: [%s] }
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, OwnNats]]:
    """Three servers by their names."""
    ports = [free_port() for _ in range(3)]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    with ExitStack() as stack:
        yield {
            f"n{n}": stack.enter_context(OwnNats(tmp_path / f"n{n}", CONFIG % (n, port, routes)).running())
            for n, port in enumerate(ports)
        }


@pytest.fixture
async def place(cluster: dict[str, OwnNats], fresh_name: str) -> Place:
    """A stream of its own on all of them."""
    url = ",".join(one.url for one in cluster.values())
    return Place(url, fresh_name, {"replicas": 3, "subjects": [f"{fresh_name}.>"]})


async def persistently(broker: Broker, place: Place, token: int) -> Handoff:
    """Take over, as a lane does it: again and again while the cluster elects."""
    trouble: Exception | None = None
    for _ in range(200):
        try:
            await broker.open()
            return await broker.take_over(place.lane, term(token))
        except FencepostError as error:
            trouble = error
            await asyncio.sleep(0.1)
    raise AssertionError(trouble)


async def leader_of(place: Place, cluster: dict[str, OwnNats]) -> str:
    """The name of the server that leads the stream."""
    for one in cluster.values():
        try:
            client = await nats.connect(one.url, allow_reconnect=False, connect_timeout=1)
        except (OSError, nats.errors.Error):
            continue
        answer = await client.request(f"$JS.API.STREAM.INFO.{place.name}", timeout=5)
        await client.close()
        return str(json.loads(answer.data)["cluster"]["leader"])
    raise AssertionError("no server answers")


async def read(place: Place) -> list[bytes]:
    """What was published, as soon as the cluster serves reads from beginning to end."""
    trouble: Exception | None = None
    for _ in range(50):
        try:
            return await place.payloads()
        except (nats.errors.Error, AssertionError) as error:
            trouble = error
            await asyncio.sleep(0.2)
    raise AssertionError(trouble)


async def test_batches_one_after_the_other(cluster: dict[str, OwnNats], place: Place) -> None:
    """The server compares with what is under way: a batch right behind the answer to the last one is not refused."""
    broker = place.broker(timeout_s=5)
    handoff = await persistently(broker, place, 1)
    for number in range(300):
        await handoff.publish([row(number)])
    successor = await broker.take_over(place.lane, term(2))
    with pytest.raises(Fenced):
        await handoff.publish([row(1000)])
    assert successor.receipts.highest() == 299
    await broker.close()
    place.url = cluster["n0"].url
    assert await place.payloads() == [b"payload %d" % n for n in range(300)]
    assert (await place.config()).num_replicas == 3


async def test_the_leader_dies_again_and_again(cluster: dict[str, OwnNats], place: Place) -> None:
    """A relay's loop in short: publish; after trouble take over, and send what no receipt names."""
    broker = place.broker(timeout_s=2)
    handoff = await persistently(broker, place, 0)
    assert (await broker.open()).delivery is Delivery.ATOMIC
    expected: list[bytes] = []
    for turn in range(2):
        batch = rows(600, start=1000 * turn)
        victim = cluster[await leader_of(place, cluster)]
        publishing = asyncio.create_task(handoff.publish(batch))
        await asyncio.sleep(0.01 * turn)
        victim.kill()
        (result,) = await asyncio.gather(publishing, return_exceptions=True)
        assert not isinstance(result, BaseException) or isinstance(result, RetryError), result
        handoff = await persistently(broker, place, turn + 1)
        while batch[0].position not in {position for position, _ in handoff.receipts.named()}:
            try:
                await handoff.publish(batch)
            except RetryError:
                handoff = await persistently(broker, place, turn + 1)
        expected += payloads(batch)
        victim.start()
    await broker.close()
    place.url = cluster["n0"].url
    assert await read(place) == expected
