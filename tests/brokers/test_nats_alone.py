"""A stream is changed by one client at a time: nothing is stored twice, and no subject is lost."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fencepost.brokers.nats.address import Address
from fencepost.brokers.nats.alone import CONSUMER, GONE_NS, alone
from fencepost.brokers.nats.connection import Connection, connect
from fencepost.brokers.nats.errors import Refusal
from fencepost.brokers.nats.settings import Settings
from fencepost.clock import SystemClock
from fencepost.errors import Contention, RetryError
from fencepost.ports import Lane
from tests.brokers.nats_kit import Place, made
from tests.brokers.rows import payloads, row, rows, term

CLOCK = SystemClock()


@pytest.fixture
async def place(nats_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """A stream of its own on the shared server, which takes receipts and nothing else."""
    async with made(nats_url, fresh_name, allow_atomic=True, subjects=[f"fencepost.receipt.{fresh_name}.*"]) as found:
        yield found


@pytest.fixture
async def connection(place: Place) -> AsyncIterator[Connection]:
    """A connection such as the plug-in has."""
    made = await connect(Address.of(place.url), Settings(stream=place.name), 20.0)
    yield made
    await made.close()


async def consumers(place: Place) -> list[str]:
    """The names of the stream's consumers."""
    async with place.client() as client:
        return [info.name for info in await client.jsm().consumers_info(place.name)]


async def test_clients_that_add_the_same_subject_at_once_double_nothing(place: Place) -> None:
    """Relays of several lanes begin with one topic at the same moment. Without the mutex it is stored twice."""
    brokers = [place.broker() for _ in range(8)]
    handoffs = [await one.take_over(Lane(place.name, n), term()) for n, one in enumerate(brokers)]
    expected: list[bytes] = []
    for turn in range(6):
        batches = [rows(3, 1000 * turn + 10 * n, topic=f"topic-{turn}") for n in range(8)]
        await asyncio.gather(*[h.publish(batch) for h, batch in zip(handoffs, batches, strict=True)])
        expected += [payload for batch in batches for payload in payloads(batch)]
    for one in brokers:
        await one.close()
    found = [m.body for m in await place.stored() if not m.subject.startswith("fencepost.")]
    assert sorted(found) == sorted(expected)
    assert await consumers(place) == []


async def test_clients_that_add_different_subjects_at_once_lose_none(place: Place) -> None:
    brokers = [place.broker() for _ in range(8)]
    handoffs = [await one.take_over(Lane(place.name, n), term()) for n, one in enumerate(brokers)]
    await asyncio.gather(*[h.publish([row(n, f"topic-{n}")]) for n, h in enumerate(handoffs)])
    for one in brokers:
        await one.close()
    assert {f"{place.name}.topic-{n}" for n in range(8)} <= set((await place.config()).subjects)


async def test_only_one_is_inside(place: Place, connection: Connection) -> None:
    """Also where several tasks share a connection."""
    second = await connect(Address.of(place.url), Settings(stream=place.name), 20.0)
    inside: list[int] = []
    entered = 0

    async def enter(one: Connection, number: int) -> None:
        nonlocal entered
        async with alone(one, place.name, CLOCK):
            inside.append(number)
            await asyncio.sleep(0.005)
            assert inside == [number]
            inside.remove(number)
            entered += 1

    await asyncio.gather(*[enter((connection, second)[n % 2], n) for n in range(12)])
    await second.close()
    assert entered == 12


async def test_a_living_holder_keeps_the_others_out_however_long_it_takes(place: Place, connection: Connection) -> None:
    """And these give up in time, with an error that says to try again, and without losing their connection."""
    async with alone(connection, place.name, CLOCK):
        await asyncio.sleep(GONE_NS / 1e9 + 1)
        async with place.opened(timeout_s=1.0) as broker:
            handoff = await broker.take_over(place.lane, term())
            with pytest.raises(Contention, match="being changed by somebody else"):
                await handoff.publish([row(1)])
    async with place.handoff(2) as handoff:
        await handoff.publish([row(1)])
    assert await place.payloads() == [b"payload 1"]


HOLDER = """
import asyncio, sys
from fencepost.brokers.nats.address import Address
from fencepost.brokers.nats.alone import alone
from fencepost.brokers.nats.connection import connect
from fencepost.brokers.nats.settings import Settings
from fencepost.clock import SystemClock

async def main():
    connection = await connect(Address.of(sys.argv[1]), Settings(stream=sys.argv[2]), 20.0)
    async with alone(connection, sys.argv[2], SystemClock()):
        print("inside", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_killed_holder_makes_room(place: Place) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, place.url, place.name, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"inside\n"
    assert await consumers(place) == [CONSUMER]
    process.send_signal(signal.SIGKILL)
    await process.wait()
    async with place.handoff() as handoff:
        await handoff.publish([row(1)])
    assert await place.payloads() == [b"payload 1"]


async def test_a_cancelled_holder_makes_room_at_once(place: Place, connection: Connection) -> None:
    holding = asyncio.Event()

    async def hold() -> None:
        async with alone(connection, place.name, CLOCK):
            holding.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(hold())
    await holding.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(GONE_NS / 1e9 / 2), alone(connection, place.name, CLOCK):
        pass


@pytest.mark.parametrize("retention", ["limits", "interest", "workqueue"])
async def test_streams_of_every_kind_have_the_mutex(place: Place, connection: Connection, retention: str) -> None:
    await place.drop()
    await place.make(retention=retention)
    async with alone(connection, place.name, CLOCK):
        assert await consumers(place) == [CONSUMER]
        short = await connect(Address.of(place.url), Settings(stream=place.name), 0.4)
        with pytest.raises(Contention):
            await alone(short, place.name, CLOCK).__aenter__()
        await short.close()
    assert await consumers(place) == []


async def test_a_stream_that_doubles_is_named_with_its_remedy(place: Place) -> None:
    """Made to double as two clients without the mutex do it; the server refuses every batch there from then on."""
    async with place.client() as one, place.client() as two, place.client() as three:
        for turn in range(100):
            topic = f"topic-{turn}"
            await asyncio.gather(*[add_carelessly(client, place, topic) for client in (one, two, three)])
            async with place.handoff(turn) as handoff:
                (result,) = await asyncio.gather(handoff.publish([row(turn, topic)]), return_exceptions=True)
            if isinstance(result, BaseException):
                break
        else:
            pytest.skip("nobody can force this race of the server's own; test_nats_parts tests what is said of it, too")
    assert isinstance(result, RetryError)
    assert "10176" in str(result)
    assert "restart the server" in result.remedy


async def add_carelessly(client: Any, place: Place, topic: str) -> None:
    """Add a subject as somebody does who thinks to be alone."""
    api = f"$JS.API.STREAM.%s.{place.name}"
    config = json.loads((await client.request(api % "INFO", timeout=5)).data)["config"]
    config["subjects"] = list(dict.fromkeys([*config["subjects"], f"{place.name}.{topic}"]))
    answer = json.loads((await client.request(api % "UPDATE", json.dumps(config).encode(), timeout=5)).data)
    assert Refusal.of(answer) is None, answer
