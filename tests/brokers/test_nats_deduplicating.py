"""Without atomic batches: one message at a time, recognised by its id, in order per key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fencepost.brokers.nats.deduplicating import DeduplicatingHandoff
from fencepost.brokers.nats.stream import RECEIPTS_ROOM
from fencepost.errors import ConnectionLost, FixError, RetryError, SchemaMissing
from fencepost.ports import Delivery
from tests.brokers.nats_kit import Place, made
from tests.brokers.rows import payloads, row, rows, term


@pytest.fixture
async def place(nats_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """A stream without atomic batches, which must stay as it is."""
    async with made(nats_url, fresh_name, allow_atomic=False, subjects=[f"{fresh_name}.>"]) as found:
        yield found


async def test_the_reason_says_what_to_change(place: Place) -> None:
    broker = place.broker(create=False)
    found = await broker.open()
    await broker.close()
    assert (found.delivery, found.batch_max) == (Delivery.DEDUPLICATING, None)
    assert found.reason == f"allow_atomic of stream {place.name} is false: set it to true"
    assert not (await place.config()).allow_atomic


async def test_with_leave_the_stream_is_changed(place: Place) -> None:
    """By the owner: not by who only looks, nor by a standby."""
    async with place.opened() as broker:
        assert (await broker.open()).delivery is Delivery.ATOMIC
        await broker.prepare(place.lane)
        config = await place.config()
        assert (bool(config.allow_atomic), config.subjects) == (False, [f"{place.name}.>"])
        handoff = await broker.take_over(place.lane, term())
        await handoff.publish([row(1)])
    config = await place.config()
    assert config.allow_atomic
    assert config.subjects == [f"{place.name}.>", f"fencepost.receipt.{place.name}.*"]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"retention": "interest"}, "retention"),
        ({"retention": "workqueue"}, "retention"),
        ({"deny_purge": True}, "deny_purge"),
        ({"deny_delete": True}, "deny_delete"),
        ({"max_msgs_per_subject": RECEIPTS_ROOM - 1}, "max_msgs_per_subject"),
        ({"subject_transform": {"src": "x.>", "dest": "y.>"}}, "subject_transform"),
    ],
)
async def test_streams_that_cannot_keep_receipts(place: Place, config: dict[str, Any], named: str) -> None:
    await place.drop()
    await place.make(allow_atomic=True, **config)
    broker = place.broker()
    found = await broker.open()
    await broker.close()
    assert found.delivery is Delivery.DEDUPLICATING
    assert f"{named} of stream {place.name}" in found.reason


@pytest.mark.parametrize(
    ("config", "named"), [({"persist_mode": "async"}, "persist_mode"), ({"retention": "interest"}, "retention")]
)
async def test_a_stream_is_not_changed_in_vain(place: Place, config: dict[str, Any], named: str) -> None:
    await place.drop()
    await place.make(**config)
    broker = place.broker()
    found = await broker.open()
    await broker.close()
    assert found.delivery is Delivery.DEDUPLICATING
    assert f"{named} of stream {place.name}" in found.reason
    assert not (await place.config()).allow_atomic


async def test_a_batch_arrives_once_however_often_it_is_sent(place: Place) -> None:
    batch = rows(300)
    for token in range(3):
        async with place.handoff(token, create=False) as handoff:
            outcome = await handoff.publish(batch)
            assert (list(outcome.published), list(outcome.failed), len(handoff.receipts)) == (batch, [], 0)
    assert await place.payloads() == payloads(batch)
    assert [m.headers["Nats-Msg-Id"] for m in await place.stored()] == [m.id for m in batch]


async def test_the_envelope_is_the_same(place: Place) -> None:
    async with place.handoff(create=False) as handoff:
        await handoff.publish([row(1, payload=None, headers={"a": "b"})])
    (message,) = await place.stored()
    assert (message.headers["ce-subject"], message.headers["fencepost-tombstone"], message.headers["a"]) == (
        "k",
        "true",
        "b",
    )


async def test_a_bad_message_holds_back_its_key_only(place: Place) -> None:
    """E1, and the order of a key."""
    batch = [
        row(1, key="a"),
        row(2, key="b"),
        row(3, key="a", payload=b"x" * 1_100_000),
        row(4, key="a"),
        row(5, key="b"),
    ]
    async with place.handoff(create=False) as handoff:
        outcome = await handoff.publish(batch)
    assert [m.position for m in outcome.published] == [1, 2, 5]
    assert [(f.message.position, f.at_once) for f in outcome.failed] == [(3, True)]


async def test_a_message_that_the_server_refuses_holds_back_its_key_only(place: Place) -> None:
    """The size limit of the stream changes while the handoff is in use: the server says no, for one message."""
    async with place.handoff(create=False) as handoff:
        await place.change(max_msg_size=3000)
        big = row(2, key="a", payload=b"x" * 4000)
        outcome = await handoff.publish([row(1, key="a"), big, row(3, key="a"), row(4, key="b"), row(5, key=None)])
        assert [m.position for m in outcome.published] == [1, 4, 5]
        assert [(f.message.position, f.at_once) for f in outcome.failed] == [(2, True)]
        assert list((await handoff.publish([row(6)])).failed) == []


async def test_one_message_of_a_key_is_under_way_at_most(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place.handoff(create=False) as handoff:
        assert isinstance(handoff, DeduplicatingHandoff)
        connection, sent = handoff._connection, []
        real = connection.send

        async def counted(frames: list[bytes]) -> None:
            sent.append(len(frames))
            await real(frames)

        monkeypatch.setattr(connection, "send", counted)
        await handoff.publish([row(i, key=key) for i, key in enumerate("abcabcaad")])
        await handoff.publish([row(100 + i, key=None) for i in range(50)])
    assert sent == [3, 3, 1, 2, 50]


async def test_a_stream_that_is_gone_voids_the_handoff(place: Place) -> None:
    async with place.handoff(create=False) as handoff:
        await handoff.publish([row(1)])
        await place.drop()
        with pytest.raises(RetryError):
            await handoff.publish([row(2)])
        with pytest.raises(ConnectionLost):
            await handoff.publish([row(2)])


async def test_what_was_acknowledged_before_the_trouble_is_published(place: Place) -> None:
    """A full stream takes the first messages and refuses the rest; what is in neither list stays pending."""
    await place.change(discard="new", max_msgs=3)
    batch = [row(i, key="k") for i in range(1, 8)]
    async with place.opened(create=False) as broker:
        handoff = await broker.take_over(place.lane, term())
        outcome = await handoff.publish(batch)
        assert ([m.position for m in outcome.published], list(outcome.failed)) == ([1, 2, 3], [])
        with pytest.raises(RetryError, match="maximum messages exceeded"):  # what broke off the first one
            await handoff.publish(batch[3:])
        handoff = await broker.take_over(place.lane, term())
        with pytest.raises(RetryError, match="maximum messages exceeded"):
            await handoff.publish(batch[3:])
        await place.change(discard="old", max_msgs=100)
        handoff = await broker.take_over(place.lane, term())
        await handoff.publish(batch[3:])
    assert await place.payloads() == payloads(batch)


async def test_topics_need_leave_too(place: Place) -> None:
    await place.change(subjects=[f"{place.name}.a"])
    async with place.opened(create=False) as broker:
        await broker.prepare(place.lane, ["a"])
        with pytest.raises(SchemaMissing):
            await broker.prepare(place.lane, ["b"])
        handoff = await broker.take_over(place.lane, term())
        with pytest.raises(SchemaMissing, match=f"{place.name}.b"):
            await handoff.publish([row(1, "b")])


async def test_cancelling_voids_the_handoff(place: Place) -> None:
    async with place.handoff(create=False) as handoff:
        task = asyncio.create_task(handoff.publish(rows(200)))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(result, asyncio.CancelledError)
        with pytest.raises(ConnectionLost):
            await handoff.publish([row(1)])


@pytest.mark.parametrize(("config", "named"), [({"sealed": True}, "sealed"), ({"no_ack": True}, "no_ack")])
async def test_streams_that_cannot_be_published_to(place: Place, config: dict[str, Any], named: str) -> None:
    await place.change(**config)
    broker = place.broker(create=False)
    with pytest.raises(FixError, match=f"{named} is set"):
        await broker.open()
    await broker.close()


async def test_a_mirror_cannot_be_published_to(place: Place) -> None:
    mirror = Place(place.url, f"{place.name}-mirror")
    async with place.client() as client:
        await client.jsm().add_stream(name=mirror.name, mirror={"name": place.name})
    try:
        broker = mirror.broker()
        with pytest.raises(FixError, match="mirror is set"):
            await broker.open()
        await broker.close()
    finally:
        await mirror.drop()
