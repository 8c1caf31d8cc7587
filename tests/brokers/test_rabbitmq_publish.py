"""RabbitMQ as a broker, on a real server: what is published, where it goes, and what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from fencepost.brokers.rabbitmq.suspects import REFUSED_S
from fencepost.clock import SYSTEM_CLOCK
from fencepost.demo.rabbitmq_stage import RabbitStage
from fencepost.errors import (
    ConfigurationError,
    ConnectionLost,
    FencepostError,
    ParkError,
    RetryError,
    SchemaMissing,
    Unavailable,
)
from fencepost.history import Entry
from fencepost.message import Stored
from fencepost.ports import BrokerOptions, Delivery, Outcome
from fencepost.testing.readers.rabbitmq import reader
from fencepost.testing.torture.proxy import Link, Trouble
from tests.brokers.rabbitmq_kit import Place
from tests.brokers.rows import row, rows, term


@pytest.fixture
async def place(rabbitmq_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """Names of the test's own on the shared server."""
    one = Place(rabbitmq_url, fresh_name)
    yield one
    await one.drop()


def reasons(outcome: Outcome) -> dict[str, FencepostError]:
    """Why each message failed, by its id."""
    return {failure.message.id: failure.error for failure in outcome.failed}


# -- what a message looks like -------------------------------------------------------------------------------------


async def test_a_message_is_persistent_and_says_what_it_is(place: Place) -> None:
    queue = await place.queue(place.name)
    batch = [
        row(1, queue, key="k", headers={"trace": "1"}),
        row(2, queue, key=None, payload=None, in_doubt=True),
    ]
    async with place.handoff() as handoff:
        assert (await handoff.publish(batch)).published == batch
        one, gone = [message.header.properties for message in await place.taken(queue)]
        assert (one.message_id, one.content_type, one.delivery_mode) == (batch[0].id, "application/json", 2)
        await handoff.publish(batch)
    headers, of_gone = await place.headers(queue)
    assert (headers["cloudEvents:subject"], headers["trace"]) == ("k", "1")
    assert (gone.delivery_mode, gone.message_id) == (2, batch[1].id)
    assert of_gone["fencepost-tombstone"] == of_gone["cloudEvents:possiblerepeat"] == "true"


async def test_the_prefix_of_the_headers_can_be_set(place: Place) -> None:
    queue = await place.queue(place.name)
    async with place.handoff(header_prefix="cloudEvents_") as handoff:
        await handoff.publish([row(1, queue)])
    (headers,) = await place.headers(queue)
    assert headers["cloudEvents_specversion"] == "1.0"


async def test_messages_of_several_frames_arrive_whole(place: Place) -> None:
    queue = await place.queue(place.name)
    payloads = [bytes([i]) * (131_064 * i + i - 1) for i in range(4)]
    async with place.handoff() as handoff:
        await handoff.publish([row(i, queue, payload=payload) for i, payload in enumerate(payloads)])
    assert [message.body for message in await place.taken(queue)] == payloads


# -- C3: nothing is bound, or nothing is there -----------------------------------------------------------------------


async def test_what_nothing_is_bound_for_comes_back_and_the_rest_goes_out(place: Place) -> None:
    """C3: it is never "sent"; once a queue is bound, it goes out."""
    exchange = await place.exchange(place.name)
    queue = await place.queue(f"{place.name}-q", "bound.*", exchange=exchange)
    lost, found = row(1, "free.a"), rows(5, start=2, topic="bound.a")
    async with place.handoff(exchange=exchange) as handoff:
        outcome = await handoff.publish([*found[:2], lost, *found[2:]])
        assert outcome.published == found
        error = reasons(outcome)[lost.id]
        assert isinstance(error, SchemaMissing)
        assert f"nothing is bound to the exchange {exchange!r} for the routing key 'free.a'" in str(error)
        assert await place.ids(queue) == [m.id for m in found]
        await place.queue(queue, "free.*", exchange=exchange)
        assert (await handoff.publish([lost])).published == [lost]
    assert await place.ids(queue) == [lost.id]


async def test_a_topic_without_a_queue_is_not_sent_where_nothing_may_be_created(place: Place) -> None:
    """C3"""
    async with place.handoff(create=False) as handoff:
        outcome = await handoff.publish([row(1, place.name)])
    (error,) = reasons(outcome).values()
    assert isinstance(error, SchemaMissing)
    assert f"there is no queue '{place.name}'" in str(error)
    assert "create = true" in error.remedy


async def test_a_missing_exchange_is_told_before_anything_is_sent(place: Place) -> None:
    """C3: at `fencepost check`, and when a relay takes over."""
    broker = place.broker(create=False, exchange=place.name)
    await broker.open()
    for call in (broker.rehearse(place.lane), broker.prepare(place.lane), broker.take_over(place.lane, term())):
        with pytest.raises(SchemaMissing, match=f"no exchange '{place.name}'"):
            await call
    await broker.close()


async def test_an_exchange_that_vanishes_is_told_and_made_again(place: Place) -> None:
    """C3: nothing of the batch counts as published; the next take-over makes the exchange where it may."""
    exchange = await place.exchange(place.name)
    async with place.handoff(exchange=exchange) as handoff, place.channel() as channel:
        await channel.exchange_delete(exchange)
        with pytest.raises(RetryError, match="no exchange"):
            await handoff.publish(rows(10))
        with pytest.raises(FencepostError):
            await handoff.publish(rows(1))
    async with place.handoff(exchange=exchange) as handoff:
        (error, *_) = reasons(await handoff.publish(rows(2))).values()
        assert "nothing is bound" in str(error)
    broker = place.broker(create=False, exchange=exchange)
    await broker.rehearse(place.lane)
    await broker.close()


async def test_one_topics_exchange_is_missing_and_the_other_topics_go_out(place: Place) -> None:
    """C3: the server closes the channel without saying which message it was; it is found, and waits alone."""
    there = await place.exchange(f"{place.name}.a", "fanout")
    queue = await place.queue(f"{place.name}-q", "", exchange=there)
    good, bad = rows(6, topic="a"), rows(2, start=20, topic="b")
    broker = place.broker(create=False, exchange=f"{place.name}.{{topic}}")
    handoff = await broker.take_over(place.lane, term())
    with pytest.raises(ConnectionLost, match="refused one of 8 messages"):
        await handoff.publish([*good[:3], *bad, *good[3:]])
    await handoff.close()
    repeated = await place.ids(queue)
    assert repeated in ([], [m.id for m in good[:3]])  # sent, and unconfirmed: in doubt
    handoff = await broker.take_over(place.lane, term())
    outcome = await handoff.publish([*good[:3], *bad, *good[3:]])
    assert outcome.published == good
    assert reasons(outcome).keys() == {m.id for m in bad}
    assert all(isinstance(error, SchemaMissing) for error in reasons(outcome).values())
    assert await place.ids(queue) == [m.id for m in good]
    outcome = await handoff.publish([*bad, *good])
    assert (outcome.published, len(outcome.failed)) == (good, 2)  # it is remembered: no channel was closed
    await broker.close()


async def test_a_place_that_was_refused_is_tried_again_after_a_while(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert REFUSED_S > 1
    monkeypatch.setattr("fencepost.brokers.rabbitmq.suspects.REFUSED_S", 1.0)
    async with place.handoff(create=False, exchange=f"{place.name}.{{topic}}") as handoff:
        (message,) = rows(1, topic="b")
        assert len((await handoff.publish([message])).failed) == 1
        refused_at = SYSTEM_CLOCK.monotonic()
        await place.queue(f"{place.name}-q", "", exchange=await place.exchange(f"{place.name}.b", "fanout"))
        outcome = await handoff.publish([message])
        if SYSTEM_CLOCK.monotonic() - refused_at < 1.0:  # a machine may be slow
            assert len(outcome.failed) == 1
            await asyncio.sleep(1.0)
        assert (await handoff.publish([message])).published == [message]


# -- declared by configuration -------------------------------------------------------------------------------------


async def test_exchange_queues_and_bindings_are_made(place: Place) -> None:
    exchange, queue = place.name, f"{place.name}.q"
    place.made += [("queue", queue), ("exchange", exchange)]
    given: dict[str, Any] = {"exchange": exchange, f"queues.{queue}": ["order.*"], "routing_key": "order.{type}"}
    batch = rows(3, type="placed")
    async with place.handoff(**given) as handoff:
        assert (await handoff.publish(batch)).published == batch
    assert await place.ids(queue) == [m.id for m in batch]
    with pytest.raises(Exception, match="x-queue-type"):  # it is a quorum queue
        await place.queue(queue)
    with pytest.raises(Exception, match="inequivalent arg 'type'"):
        await place.exchange(exchange, "fanout")
    broker = place.broker(create=False, **given)
    await broker.rehearse(place.lane)
    await broker.close()


async def test_each_topic_may_have_an_exchange(place: Place) -> None:
    queue = f"{place.name}.q"
    place.made += [("queue", queue), ("exchange", f"{place.name}.a"), ("exchange", f"{place.name}.b")]
    given: dict[str, Any] = {
        "exchange": f"{place.name}.{{topic}}",
        "exchange_type": "fanout",
        "queue_type": "classic",
        f"queues.{queue}": "a,b",
    }
    batch = [row(1, "a"), row(2, "b")]
    async with place.handoff(**given) as handoff:
        assert (await handoff.publish(batch)).published == batch
    assert await place.ids(queue) == [m.id for m in batch]


async def test_a_stream_may_be_the_queue_of_a_topic(place: Place) -> None:
    place.made.append(("queue", place.name))
    batch = rows(3, topic=place.name)
    async with place.handoff(queue_type="stream") as handoff:
        assert (await handoff.publish(batch)).published == batch
    with pytest.raises(Exception, match="'stream'"):  # what it was declared as
        await place.queue(place.name, arguments={"x-queue-type": "classic"})


async def test_what_is_there_is_used_as_it_is(place: Place) -> None:
    """A classic queue with a limit, an exchange of another type."""
    exchange = await place.exchange(place.name, "fanout")
    queue = await place.queue(f"{place.name}.q", arguments={"x-max-length": 100})
    async with place.handoff(exchange=exchange, **{f"queues.{queue}": ["x"]}) as handoff:
        await handoff.publish([row(1, "anything")])
    assert len(await place.ids(queue)) == 1


async def test_a_queue_that_is_deleted_meanwhile_is_made_again(place: Place) -> None:
    place.made.append(("queue", place.name))
    (message,) = rows(1, topic=place.name)
    async with place.handoff() as handoff, place.channel() as channel:
        assert (await handoff.publish([message])).published == [message]
        await channel.queue_delete(place.name)
        assert len((await handoff.publish([message])).failed) == 1
        assert (await handoff.publish([message])).published == [message]


async def test_an_exchange_type_that_the_server_does_not_know(place: Place) -> None:
    broker = place.broker(exchange=place.name, exchange_type="x-random-nonsense")
    with pytest.raises(ConfigurationError, match="unknown exchange type"):
        await broker.take_over(place.lane, term())
    await broker.close()


# -- messages that a queue or the server does not take ---------------------------------------------------------------


async def test_a_full_queue_refuses_and_the_others_take(place: Place) -> None:
    """It is not the message's fault: it is never parked for it."""
    full = await place.queue(f"{place.name}.full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    queue = await place.queue(place.name)
    first, second, other = row(1, full, key="a"), row(2, full, key="b"), row(3, queue)
    async with place.handoff() as handoff:
        await handoff.publish([first])
        outcome = await handoff.publish([second, other])
        assert outcome.published == [other]
        error = reasons(outcome)[second.id]
        assert isinstance(error, Unavailable)
        assert "basic.nack" in str(error)
        assert await place.ids(full) == [first.id]
        assert (await handoff.publish([second])).published == [second]


async def test_names_and_headers_that_the_server_would_not_take_are_parked_alone(place: Place) -> None:
    queue = await place.queue(place.name)
    bad = [
        row(1, "amq.reserved", key="a"),
        row(2, queue, key="b", headers={"CC": "x"}),
        row(3, queue, key="c", headers={"long": "v" * 140_000}),
    ]
    good = row(4, queue, key="d")
    async with place.handoff() as handoff:
        outcome = await handoff.publish([*bad, good])
        assert outcome.published == [good]
        assert all(isinstance(error, ParkError) and error.at_once for error in reasons(outcome).values())
        assert reasons(outcome).keys() == {m.id for m in bad}
    assert await place.ids(queue) == [good.id]


async def test_the_same_id_twice_in_one_batch(place: Place) -> None:
    """A table of somebody else's may hold it: the answers are not mixed up."""
    queue = await place.queue(place.name)
    one = row(1, queue, key="a")
    twin, lost = row(2, queue, key="b", id=one.id), row(3, f"{queue}-no", key="c", id=one.id)
    async with place.handoff(create=False) as handoff:
        outcome = await handoff.publish([one, lost, twin])
    assert outcome.published == [one, twin]
    assert [failure.message for failure in outcome.failed] == [lost]


# -- connections ---------------------------------------------------------------------------------------------------


async def test_a_connection_that_is_cut_in_the_middle(place: Place) -> None:
    """C2: what was not confirmed is not published; the handoff is void, the next one publishes."""
    host, port = place.url.split("@")[1].rstrip("/").split(":")
    link = Link((host, int(port)), SYSTEM_CLOCK)
    await link.open()
    through = Place(f"amqp://guest:guest@127.0.0.1:{link.port}/", place.name)
    queue, batch = await place.queue(place.name), []
    broker = through.broker()
    handoff = await broker.take_over(place.lane, term())
    batch = rows(300, topic=queue, keys=300, payload=bytes(10_000))
    link.begin(Trouble("narrow", bytes_per_s=300_000))
    publishing = asyncio.ensure_future(handoff.publish(batch))
    await asyncio.sleep(0.3)
    assert not publishing.done()
    link.begin(Trouble("cut"))
    confirmed: list[Stored] = []
    with suppress(RetryError):  # where nothing was confirmed yet
        confirmed += (await publishing).published
    assert len(confirmed) < 300
    with pytest.raises(RetryError, match=r"lost|reset"):
        await handoff.publish(batch[:1])
    await handoff.close()
    link.end(Trouble("narrow", bytes_per_s=300_000))
    link.end(Trouble("cut"))
    handoff = await broker.take_over(place.lane, term())
    assert (await handoff.publish(batch)).published == batch
    await broker.close()
    await link.close()
    ids = await place.ids(queue)
    assert ids[-300:] == [m.id for m in batch]
    assert {m.id for m in confirmed} <= set(ids[:-300])
    assert len(ids) < 600


async def test_a_publish_that_is_cancelled_leaves_nothing_open(place: Place) -> None:
    queue = await place.queue(place.name)
    async with place.handoff() as handoff:
        publishing = asyncio.ensure_future(handoff.publish(rows(2000, topic=queue)))
        await asyncio.sleep(0.02)
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        with pytest.raises(FencepostError):
            await handoff.publish(rows(1, topic=queue))


async def test_closing_ends_a_publish_that_waits(place: Place) -> None:
    host, port = place.url.split("@")[1].rstrip("/").split(":")
    link = Link((host, int(port)), SYSTEM_CLOCK)
    await link.open()
    broker = Place(f"amqp://guest:guest@127.0.0.1:{link.port}/", place.name).broker()
    queue = await place.queue(place.name)
    handoff = await broker.take_over(place.lane, term())
    link.begin(Trouble("hold"))
    publishing = asyncio.ensure_future(handoff.publish(rows(5, topic=queue)))
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        await broker.close()
        with pytest.raises(FencepostError):
            await publishing
    await link.close()


async def test_the_reader_of_the_rules_keeps_what_it_has_read(place: Place) -> None:
    queue = await place.queue(place.name)
    one = reader(BrokerOptions(url=place.url, source="/shop"))
    async with place.handoff() as handoff:
        for position in (1, 2):
            await handoff.publish([row(position, queue)])
            assert len(await one.read(queue)) == position
    assert await one.read(f"{queue}-no") == []
    await one.close()
    place.made.clear()


async def test_what_the_broker_says_of_itself(place: Place) -> None:
    broker = place.broker(message_bytes_max=1_000)
    given = await broker.open()
    await broker.close()
    assert given.delivery is Delivery.PLAIN
    assert "no fence" in given.reason
    assert given.message_bytes_max == 1_000


async def test_the_stage_of_the_demonstration(place: Place) -> None:
    """It follows, and reads back as often as it is asked."""
    stage = RabbitStage(BrokerOptions(url=place.url, source="/shop"), place.name)
    await stage.create()
    batch, followed = rows(3, topic=place.name), list[Entry]()
    async with stage.following(followed.append), place.handoff(**stage.settings) as handoff:
        assert (await handoff.publish(batch)).published == batch
        expected = [Entry(m.id, m.key, m.version) for m in batch]
        for _ in range(2):
            assert await stage.read_back() == [expected]
        async with asyncio.timeout(5):
            while followed != expected:
                await asyncio.sleep(0.01)
    await stage.drop()
    broker = place.broker(create=False, exchange=place.name)
    with pytest.raises(SchemaMissing):
        await broker.rehearse(place.lane)
    await broker.close()
