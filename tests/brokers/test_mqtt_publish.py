"""Publishing to MQTT, as a subscriber sees it: to a server of the tests' own, where nobody else is subscribed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from fencepost.brokers.mqtt.encode import Encoded
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    Fenced,
    FencepostError,
    GuaranteeUnavailable,
    ParkError,
    RetryError,
    SchemaMissing,
)
from fencepost.ports import Delivery
from tests.brokers.mqtt_kit import (
    OwnMosquitto,
    Place,
    Script,
    Subscriber,
    connack,
    disconnect,
    pairs,
    puback,
    user_properties,
)
from tests.brokers.rows import row, rows, term


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnMosquitto]:
    """One for all."""
    settings = "max_packet_size 100000\nmax_inflight_messages 5\n"
    with OwnMosquitto(tmp_path_factory.mktemp("mosquitto"), settings).running() as one:
        yield one


@pytest.fixture
def place(server: OwnMosquitto, fresh_name: str) -> Place:
    """A lane and a topic of the test's own there."""
    return Place(server.url(), fresh_name)


@pytest.fixture
async def subscriber(place: Place) -> AsyncIterator[Subscriber]:
    """It takes the place's topic, and what is below it."""
    async with Subscriber(place.url, f"{place.name}/#") as one:
        yield one


# -- what arrives --------------------------------------------------------------------------------------------------


async def test_a_message_arrives_as_the_mqtt_binding_of_cloudevents_says(place: Place, subscriber: Subscriber) -> None:
    message = row(7, place.name, key="order-1", headers={"trace": "abc"})
    async with place.handoff() as handoff:
        assert (await handoff.publish([message])).published == [message]
    (taken,) = await subscriber.get(1)
    assert (taken.topic, taken.payload, taken.qos, taken.retain) == (place.name, b"payload 7", 1, False)
    assert getattr(taken.properties, "ContentType", None) == "application/json"
    assert user_properties(taken) == [
        ("specversion", "1.0"),
        ("source", "/shop"),
        ("type", "order.created"),
        ("id", message.id),
        ("time", message.occurred_at.isoformat()),
        ("subject", "order-1"),
        ("entityversion", "7"),
        ("trace", "abc"),
    ]


async def test_keys_may_be_levels_of_the_topic(place: Place, subscriber: Subscriber) -> None:
    batch = [row(1, place.name, key="a/b"), row(2, place.name, key="+"), row(3, place.name, key=None)]
    async with place.handoff(topic="{topic}/{key}") as handoff:
        assert (await handoff.publish(batch)).published == batch
    taken = await subscriber.get(3)
    assert [m.topic for m in taken] == [f"{place.name}/a%2Fb", f"{place.name}/%2B", f"{place.name}/"]


async def test_more_than_the_server_allows_at_once_arrive_in_order(place: Place, subscriber: Subscriber) -> None:
    """The server allows five; one message of each key at a time, as the relay sends them."""
    batch = [row(n, place.name, key=f"k{n}") for n in range(1, 301)]
    async with place.handoff() as handoff:
        assert handoff.link.terms.in_flight_max == 5
        assert (await handoff.publish(batch)).published == batch
    await subscriber.get(300)
    assert pairs(subscriber.ids, batch) == pairs([m.id for m in batch], batch)


@pytest.mark.parametrize("most", [1, 3])
async def test_no_more_than_the_receive_maximum_are_under_way(fresh_name: str, most: int) -> None:
    """A peer that answers only when as many are under way as it allows."""

    def says(peer: Script, mid: int) -> bytes:
        asked = len(peer.received)
        if asked % most and asked != 20:
            return b""
        return b"".join(puback(mid) for mid in peer.received[(asked - 1) // most * most :])

    peer = Script(says, connack(properties=b"\x21" + most.to_bytes(2, "big")))
    batch, under_way = rows(20, topic="t"), list[int]()
    async with peer.serving() as url, Place(url, fresh_name).handoff(timeout_s=10) as handoff:
        send = handoff.link.send

        def counted(message: Encoded) -> int:
            mid = send(message)
            under_way.append(handoff.link._under_way)
            return mid

        handoff.link.send = counted  # type: ignore[method-assign]
        assert (await handoff.publish(batch)).published == batch
    assert max(under_way) == most


async def test_a_batch_that_takes_too_long_is_left_to_the_next_publish(fresh_name: str) -> None:
    peer = Script(lambda _, mid: puback(mid), connack(properties=b"\x21\x00\x01"))
    batch = rows(2_000, topic="t")
    async with peer.serving() as url, Place(url, fresh_name).handoff(publish_s=0.05) as handoff:
        first = await handoff.publish(batch)
        assert 0 < len(first.published) < 2_000
        assert first.published == batch[: len(first.published)]
        rest = batch[len(first.published) :][:10]
        assert (await handoff.publish(rest[:3])).published[0] == rest[0]
    assert len(peer.received) < 2_000


# -- nobody is there -----------------------------------------------------------------------------------------------


async def test_what_nobody_is_subscribed_to_is_not_published(place: Place) -> None:
    """The server acknowledges it, and has dropped it: its topic waits, the other one goes on."""
    nowhere, other = rows(3, topic=f"{place.name}/nowhere"), rows(3, start=10, topic=f"{place.name}/there")
    batch = [m for pair in zip(nowhere, other, strict=True) for m in pair]
    async with Subscriber(place.url, f"{place.name}/there") as subscriber, place.handoff() as handoff:
        outcome = await handoff.publish(batch)
        assert outcome.published == other
        assert outcome.failed
        assert all(failure.whole_topic and failure.message in nowhere for failure in outcome.failed)
        assert isinstance(outcome.failed[0].error, SchemaMissing)
        assert "nobody is subscribed" in str(outcome.failed[0].error)
        assert "allow_no_subscribers" in outcome.failed[0].error.remedy
        async with Subscriber(place.url, f"{place.name}/nowhere") as late:
            assert (await handoff.publish(nowhere)).published == nowhere
            await late.get(3)
        await subscriber.get(3)


async def test_one_keys_topic_says_nothing_of_the_others(place: Place) -> None:
    """Where keys are levels, nobody may be subscribed to one key and somebody to another."""
    batch = [row(1, place.name, key="a"), row(2, place.name, key="b")]
    async with (
        Subscriber(place.url, f"{place.name}/b") as subscriber,
        place.handoff(topic="{topic}/{key}") as handoff,
    ):
        outcome = await handoff.publish(batch)
        assert outcome.published == [batch[1]]
        assert [(f.message, f.whole_topic) for f in outcome.failed] == [(batch[0], False)]
        await subscriber.get(1)


async def test_who_has_no_subscribers_may_say_that_it_does_not_matter(place: Place) -> None:
    async with place.handoff(allow_no_subscribers=True) as handoff:
        batch = rows(3, topic=place.name)
        assert (await handoff.publish(batch)).published == batch


async def test_a_subscriber_that_is_away_gets_it_later(place: Place) -> None:
    """Its session lasts: the server has somebody to give it to."""
    batch = rows(5, topic=place.name)
    Subscriber(place.url, place.name, client_id=place.name, session_s=60).close()
    async with place.handoff() as handoff:
        assert (await handoff.publish(batch)).published == batch
    async with Subscriber(place.url, place.name, client_id=place.name, session_s=60) as back:
        await back.get(5)
        assert back.ids == [m.id for m in batch]


async def test_retained_messages(place: Place) -> None:
    """E7: who comes later gets the last message of the topic, and nothing after a tombstone."""
    batch = rows(3, topic=place.name, keys=1)
    async with place.handoff(retain=True, allow_no_subscribers=True) as handoff:
        await handoff.publish(batch)
        async with Subscriber(place.url, place.name) as late:
            (taken,) = await late.get(1)
            assert (late.ids, taken.retain) == ([batch[-1].id], True)
            gone = row(9, place.name, payload=None)
            await handoff.publish([gone])
            tombstone = (await late.get(2))[1]
            assert (tombstone.payload, tombstone.retain) == (b"", False)
            assert ("fencepost-tombstone", "true") in user_properties(tombstone)
        async with Subscriber(place.url, f"{place.name}/#") as later:
            await handoff.publish([row(10, f"{place.name}/x")])
            assert [m.topic for m in await later.get(1)] == [f"{place.name}/x"]


# -- what cannot go ------------------------------------------------------------------------------------------------


async def test_the_servers_limit_counts_the_whole_packet(place: Place, subscriber: Subscriber) -> None:
    """E1: one byte more is parked alone; the largest that may be arrives."""
    most = 100_000
    head = 1 + 3 + 2 + len(place.name) + 2
    (message,) = rows(1, topic=place.name)
    async with place.handoff() as handoff:
        assert handoff.link.terms.packet_bytes_max == most
        properties = len(handoff._encoder.one(message).properties)
        largest = message._replace(payload=bytes(most - head - properties))
        large = row(2, place.name, key="large", payload=bytes(most - head - properties + 60))
        good = row(3, place.name, key="good")
        outcome = await handoff.publish([large, largest, good])
    assert outcome.published == [largest, good]
    (failure,) = outcome.failed
    assert failure.message == large
    assert isinstance(failure.error, ParkError)
    assert failure.error.at_once
    assert "the limit is 100,000" in str(failure.error)
    assert len((await subscriber.get(2))[0].payload) == len(largest.payload or b"")


async def test_what_a_server_gives_is_learnt(place: Place) -> None:
    one = place.broker()
    given = await one.open()
    await one.close()
    assert (given.delivery, given.message_bytes_max) == (Delivery.PLAIN, 100_000)
    assert "recognises no repeated message" in given.reason
    one = place.broker(packet_bytes_max=5_000)
    assert (await one.open()).message_bytes_max == 5_000
    await one.close()


@pytest.mark.parametrize(
    ("code", "family", "whole_topic"),
    [
        (0x80, RetryError, False),
        (0x83, RetryError, False),
        (0x87, AccessDenied, True),
        (0x90, ParkError, False),
        (0x97, RetryError, True),
        (0x99, ParkError, False),
    ],
)
async def test_a_refusal_is_about_its_message_or_its_topic(
    fresh_name: str, code: int, family: type[FencepostError], whole_topic: bool
) -> None:
    peer = Script(lambda peer, mid: puback(mid, code if len(peer.received) == 2 else 0))
    batch = [row(n, f"t{n}") for n in (1, 2, 3)]
    async with peer.serving() as url, Place(url, fresh_name).handoff() as handoff:
        outcome = await handoff.publish(batch)
        assert outcome.published == [batch[0], batch[2]]
        (failure,) = outcome.failed
        assert (failure.message, failure.whole_topic) == (batch[1], whole_topic)
        assert isinstance(failure.error, family)
        assert f"0x{code:02X}" in str(failure.error)
        again = row(4, "t4")
        assert (await handoff.publish([again])).published == [again]


@pytest.mark.parametrize(("code", "family"), [(0x95, ParkError), (0x99, ParkError), (0x87, AccessDenied)])
async def test_a_message_for_which_a_server_hangs_up_holds_no_other_back(
    fresh_name: str, code: int, family: type[FencepostError]
) -> None:
    """E1: the server does not say which one it was; what was under way goes alone then, and the one is found."""

    def says(_: Script, mid: int) -> bytes:
        return disconnect(code) if mid in bad else puback(mid)

    bad: set[int] = {3}
    peer, batch = Script(says), [row(n, f"t{n}", key=f"k{n}") for n in range(1, 6)]
    async with peer.serving() as url:
        place = Place(url, fresh_name)
        one = place.broker()
        handoff = await one.take_over(place.lane, term())
        first = await handoff.publish(batch)
        assert first.published == batch[:2]
        assert not first.failed
        with pytest.raises((ConnectionLost, AccessDenied), match=f"0x{code:02X}"):
            await handoff.publish(batch[2:])
        bad = {1}
        second = await (await one.take_over(place.lane, term())).publish(batch[2:])
        assert [f.message for f in second.failed] == [batch[2]]
        assert isinstance(second.failed[0].error, family)
        assert not second.published
        bad = set()
        assert (await (await one.take_over(place.lane, term())).publish(batch[3:])).published == batch[3:]
        await one.close()


async def test_messages_for_which_a_server_hangs_up_without_a_word_do_not_hold_the_others_back(
    fresh_name: str,
) -> None:
    """E1: whose fault it is remains unknown, so none is parked; but each of the others has its turn."""
    batch = [row(n, f"t{n}", key=f"k{n}", payload=b"bad" if n in {1, 2, 5} else b"good") for n in range(1, 9)]
    peer = Script(lambda _, mid: puback(mid), hangs_up_on=b"bad")
    async with peer.serving() as url:
        place = Place(url, fresh_name)
        one, published = place.broker(), set[int]()
        for token in range(6):
            handoff = await one.take_over(place.lane, term(token))
            with suppress(ConnectionLost):
                while True:
                    outcome = await handoff.publish([m for m in batch if m.position not in published])
                    assert not outcome.failed
                    published |= {int(m.position) for m in outcome.published}
        await one.close()
    assert published == {3, 4, 6, 7, 8}


async def test_a_server_that_says_who_took_over(fresh_name: str) -> None:
    peer = Script(lambda peer, mid: puback(mid) if len(peer.received) < 3 else disconnect(0x8E))
    async with peer.serving() as url, Place(url, fresh_name).handoff() as handoff:
        outcome = await handoff.publish(rows(5, topic="t"))
        assert len(outcome.published) == 2
        assert not outcome.failed
        with pytest.raises(Fenced, match="0x8E") as caught:
            await handoff.publish(rows(5, topic="t"))
        assert "set client_id" in caught.value.remedy


@pytest.mark.parametrize(
    ("hello", "settings", "error"),
    [
        (connack(properties=b"\x24\x00"), {}, GuaranteeUnavailable),
        (connack(properties=b"\x25\x00"), {"retain": True}, ConfigurationError),
        (connack(0x85), {}, ConfigurationError),
    ],
)
async def test_a_server_that_cannot_do_what_is_needed(
    fresh_name: str, hello: bytes, settings: dict[str, Any], error: type[FencepostError]
) -> None:
    peer = Script(lambda _, mid: puback(mid), hello)
    async with peer.serving() as url:
        one = Place(url, fresh_name).broker(**settings)
        with pytest.raises(error):
            await one.open()
        await one.close()
