"""Servers that are not there, do not answer, or stop answering: every call ends in time, with the right family."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fencepost.brokers.kafka import broker
from fencepost.brokers.kafka.clients import KEEPS
from fencepost.errors import ConnectionLost, RetryError, Unavailable
from fencepost.ports import Lane, Term
from tests.brokers.kafka_kit import ids, messages, opened, options, owning, read
from tests.brokers.kafka_proxy import END_TRANSACTION, PRODUCE, proxied

TIMEOUT_S = 3.0


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"kafka://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def refused() -> str:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"kafka://127.0.0.1:{port}"


async def test_nobody_listens_and_a_name_that_does_not_exist(refused: str) -> None:
    """It is said before the time is over, which is long in the second case."""
    nowhere = "kafka://no-such-host.invalid:9092"
    await asyncio.gather(
        cannot_open(refused, TIMEOUT_S, TIMEOUT_S + 2, "refused"),
        cannot_open(refused, 60.0, 10.0, "refused"),
        cannot_open(nowhere, TIMEOUT_S, TIMEOUT_S + 2, r"no-such-host\.invalid"),
    )


async def cannot_open(url: str, timeout_s: float, within_s: float, why: str) -> None:
    with within(within_s), pytest.raises(Unavailable, match=why):
        await broker(options(url, timeout_s=timeout_s)).open()


async def test_a_client_that_is_given_up_is_kept_until_its_request_ends(refused: str) -> None:
    """librdkafka aborts the process where an answer comes while its client is ended."""
    before = set(threading.enumerate())
    await cannot_open(refused, 5.0, 4.5, "refused")
    (keeper,) = [each for each in threading.enumerate() if each.name == KEEPS and each not in before]
    assert keeper.daemon
    await asyncio.to_thread(keeper.join, 10)
    assert not keeper.is_alive()


async def test_a_server_that_never_answers(silent: str) -> None:
    """Case D4."""
    with within(3.0), pytest.raises(RetryError):
        await broker(options(silent, timeout_s=1.0)).open()


async def test_preparing_and_taking_over_end_in_time(silent: str, refused: str) -> None:
    """Case D4."""
    await asyncio.gather(cannot_take_over(silent), cannot_take_over(refused))


async def cannot_take_over(url: str) -> None:
    lane = Lane("orders")
    kafka = broker(options(url, timeout_s=1.0))
    with within(5), pytest.raises(RetryError):
        await kafka.prepare(lane, ["orders"])
    with within(5), pytest.raises(RetryError):
        await kafka.take_over(lane, Term(lane.name, "o", 1))
    with within(5):
        await kafka.close()


async def test_closing_what_was_never_opened(refused: str) -> None:
    kafka = broker(options(refused))
    await kafka.close()
    await kafka.close()


async def test_a_broker_that_falls_silent_before_a_batch(kafka_url: str, fresh_name: str) -> None:
    """Case D4: the handoff ends in time; the batch was not published, and goes out once."""
    lane, batch = Lane(fresh_name), messages(20, fresh_name, first=2)
    async with proxied(kafka_url) as proxy:
        kafka = broker(options(proxy.url, timeout_s=TIMEOUT_S))
        await kafka.prepare(lane, [fresh_name])
        handoff = await kafka.take_over(lane, Term(lane.name, "o", 1))
        await handoff.publish(messages(2, fresh_name))
        proxy.be_silent()
        with within(TIMEOUT_S + 2), pytest.raises(RetryError):
            await handoff.publish(batch)
        with pytest.raises(ConnectionLost):
            await handoff.publish(batch)
        with within(4):
            await handoff.close()
            await kafka.close()
    async with opened(kafka_url) as kafka, owning(kafka, lane) as handoff:
        assert handoff.receipts.ranges() == [(0, 1)]
        await handoff.publish(batch)
    assert sorted(ids(read(kafka_url, fresh_name))) == [m.id for m in messages(22, fresh_name)]


async def test_the_answer_to_a_commit_is_lost(kafka_url: str, fresh_name: str) -> None:
    """Case A5: it was published; the next owner learns it from the receipt."""
    lane, batch = Lane(fresh_name), messages(20, fresh_name)
    async with proxied(kafka_url) as proxy:
        kafka = broker(options(proxy.url, timeout_s=TIMEOUT_S))
        await kafka.prepare(lane, [fresh_name])
        handoff = await kafka.take_over(lane, Term(lane.name, "o", 1))
        proxy.silent_after = END_TRANSACTION
        with within(TIMEOUT_S + 2), pytest.raises(RetryError):
            await handoff.publish(batch)
        assert proxy.is_silent
        with within(4):
            await handoff.close()
            await kafka.close()
    async with opened(kafka_url) as kafka, owning(kafka, lane) as handoff:
        assert handoff.receipts.ranges() == [(0, 19)]
    assert sorted(ids(read(kafka_url, fresh_name))) == [m.id for m in batch]


async def test_closing_does_not_wait_for_a_publish_that_hangs(kafka_url: str, fresh_name: str) -> None:
    lane = Lane(fresh_name)
    async with proxied(kafka_url) as proxy:
        kafka = broker(options(proxy.url, timeout_s=20.0))
        await kafka.prepare(lane, [fresh_name])
        handoff = await kafka.take_over(lane, Term(lane.name, "o", 1))
        proxy.silent_after = PRODUCE
        publishing = asyncio.ensure_future(handoff.publish(messages(20, fresh_name)))
        while not proxy.is_silent:
            await asyncio.sleep(0.01)
        publishing.cancel()
        with within(6):
            await handoff.close()
            await kafka.close()
    async with opened(kafka_url) as kafka, owning(kafka, lane) as handoff:
        assert len(handoff.receipts) == 0
        await handoff.publish(messages(20, fresh_name))
    assert sorted(ids(read(kafka_url, fresh_name))) == [m.id for m in messages(20, fresh_name)]
