"""What the broker in memory does beyond the rules: its settings, and the trouble that tests make with it."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from fencepost.brokers import memory
from fencepost.brokers.memory import MemoryBroker, MemoryHandoff, MemoryServer
from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import ConfigurationError, ConnectionLost, DeadlineExceeded, Fenced, Unavailable
from fencepost.message import Stored
from fencepost.ports import BrokerOptions, Delivery, Lane, Term

LANE = Lane("orders")
_numbers = itertools.count(1)


@pytest.fixture
def server() -> Iterator[MemoryServer]:
    url = f"memory://broker-{next(_numbers)}"
    yield memory.server(url)
    memory.forget(url)


def client(server: MemoryServer, timeout_s: float = 5.0, **settings: object) -> MemoryBroker:
    return memory.broker(BrokerOptions(url=server.url, source="/t", timeout_s=timeout_s, settings=settings))


async def owner(server: MemoryServer, timeout_s: float = 5.0, **settings: object) -> MemoryHandoff:
    return await client(server, timeout_s, **settings).take_over(LANE, Term(LANE.name, "a", 1))


def batch(count: int) -> list[Stored]:
    return [
        Stored(next(_numbers), SYSTEM_CLOCK.new_id(), "t", "k", 1, "m", b"{}", "application/json", None, 0)
        for _ in range(count)
    ]


def ids(server: MemoryServer, topic: str = "t") -> list[str]:
    return [d.id for d in server.published(topic)]


@pytest.mark.parametrize("delivery", list(Delivery))
async def test_it_is_of_the_class_that_the_setting_says(server: MemoryServer, delivery: Delivery) -> None:
    given = await client(server, delivery=delivery.value, batch_max=7, message_bytes_max=9).open()
    assert (given.delivery, given.batch_max, given.message_bytes_max) == (delivery, 7, 9)


async def test_it_is_atomic_by_default(server: MemoryServer) -> None:
    assert (await client(server).open()).delivery is Delivery.ATOMIC


@pytest.mark.parametrize(
    "settings", [{"deliver": "x"}, {"delivery": "sometimes"}, {"batch_max": 0}, {"message_bytes_max": "1"}]
)
def test_a_setting_that_cannot_be_meant_is_refused(server: MemoryServer, settings: dict[str, object]) -> None:
    """H4"""
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        memory.broker(BrokerOptions(url=server.url, source="/t", settings=settings))


@pytest.mark.parametrize("url", ["memory://", "kafka://x"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="memory://NAME"):
        memory.server(url)


async def test_a_lost_acknowledgement_leaves_the_batch_and_its_receipt(server: MemoryServer) -> None:
    """A5"""
    handoff, sent = await owner(server), batch(3)
    server.gate.lose_answers(1, call="publish")
    with pytest.raises(ConnectionLost):
        await handoff.publish(sent)
    assert ids(server) == [m.id for m in sent]
    with pytest.raises(ConnectionLost):
        await handoff.publish(batch(1))
    receipt = (await owner(server)).receipts.last
    assert receipt is not None
    assert receipt.positions == tuple(m.position for m in sent)
    assert server.receipts(LANE).last == receipt


async def test_an_error_leaves_nothing_and_ends_the_handoff(server: MemoryServer) -> None:
    handoff = await owner(server)
    server.gate.fail_next(1, Unavailable("no leader"), call="publish")
    with pytest.raises(Unavailable):
        await handoff.publish(batch(1))
    with pytest.raises(ConnectionLost):
        await handoff.publish(batch(1))
    assert server.topics == []


async def test_an_atomic_broker_takes_nothing_of_a_batch_that_breaks_off(server: MemoryServer) -> None:
    handoff = await owner(server)
    server.break_off(after=2)
    with pytest.raises(ConnectionLost):
        await handoff.publish(batch(3))
    assert ids(server) == []
    assert len((await owner(server)).receipts) == 0


async def test_a_plain_broker_takes_the_beginning_of_a_batch_that_breaks_off(server: MemoryServer) -> None:
    handoff, sent = await owner(server, delivery="at-least-once"), batch(3)
    server.break_off(after=2)
    with pytest.raises(ConnectionLost):
        await handoff.publish(sent)
    assert ids(server) == [m.id for m in sent[:2]]


async def test_a_refused_topic_fails_alone(server: MemoryServer) -> None:
    server.refuse("bad")
    handoff, (good, bad) = await owner(server), batch(2)
    outcome = await handoff.publish([good, bad._replace(topic="bad")])
    assert [f.message.id for f in outcome.failed] == [bad.id]
    assert not outcome.failed[0].at_once
    assert list((await handoff.publish([good])).published) == [good]
    assert server.topics == ["t"]


async def test_a_cut_ends_handoffs_and_nothing_else(server: MemoryServer) -> None:
    handoff, sent = await owner(server), batch(1)
    await handoff.publish(sent)
    server.cut()
    with pytest.raises(ConnectionLost):
        await handoff.publish(batch(1))
    assert (await owner(server)).receipts.named() == server.receipts(LANE).named() != set()
    assert ids(server) == [sent[0].id]


async def test_a_paused_owner_that_wakes_late_is_fenced(server: MemoryServer) -> None:
    """A10"""
    old, late = await owner(server), batch(2)
    server.gate.pause()
    publishing = asyncio.ensure_future(old.publish(late))
    await asyncio.sleep(0.01)
    server.gate.resume()
    new = await owner(server)
    with pytest.raises(Fenced):
        await publishing
    await new.publish(late)
    assert ids(server) == [m.id for m in late]


async def test_a_paused_server_ends_the_handoff_at_its_deadline(server: MemoryServer) -> None:
    handoff = await owner(server, timeout_s=0.02)
    server.gate.pause()
    with pytest.raises(DeadlineExceeded):
        await handoff.publish(batch(1))
    server.gate.resume()
    assert ids(server) == []


async def test_a_forgotten_server_is_gone(server: MemoryServer) -> None:
    handoff = await owner(server)
    memory.forget(server.url)
    assert memory.server(server.url) is not server
    with pytest.raises(ConnectionLost):
        await handoff.publish(batch(1))
