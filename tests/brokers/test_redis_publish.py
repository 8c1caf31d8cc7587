"""The Redis broker on a real server: what stands in the streams, and what cannot be added to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from fencepost.brokers.redis import broker, parts
from fencepost.databases.redis import RedisOutbox
from fencepost.envelope import Format
from fencepost.errors import ConfigurationError, ConnectionLost, Contention, FixError, SchemaMissing
from fencepost.ports import Term
from fencepost.receipt import RECEIPTS_KEPT, Receipt
from tests.brokers.redis_kit import Place, clean, entries, ids, names
from tests.brokers.rows import ids as ids_of
from tests.brokers.rows import row, rows


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


async def test_what_stands_in_a_stream(place: Place, client: redis.Redis) -> None:
    one, gone = row(1, headers={"tenant": "a"}), row(2, key=None, payload=None)
    async with place.handoff() as handoff:
        await handoff.publish([one, gone])
    assert entries(client, f"{place.prefix}orders") == [
        {
            "ce_specversion": b"1.0",
            "ce_source": b"/shop",
            "ce_type": b"order.created",
            "content-type": b"application/json",
            "ce_id": one.id.encode(),
            "ce_time": b"2026-03-01T12:00:00.000250+00:00",
            "ce_subject": b"k",
            "ce_entityversion": b"1",
            "tenant": b"a",
            "payload": b"payload 1",
        },
        {
            "ce_specversion": b"1.0",
            "ce_source": b"/shop",
            "ce_type": b"order.created",
            "content-type": b"application/json",
            "ce_id": gone.id.encode(),
            "ce_time": b"2026-03-01T12:00:00.000250+00:00",
        },
    ]


async def test_structured_mode(place: Place, client: redis.Redis) -> None:
    options = replace(place.broker()._options, form=Format.CLOUDEVENTS_STRUCTURED)
    one = broker(options)
    try:
        await (await one.take_over(place.lane, Term(place.lane.name, "o", 1))).publish([row(1, payload=b'{"n":1}')])
    finally:
        await one.close()
    (fields,) = entries(client, f"{place.prefix}orders")
    assert json.loads(fields["payload"])["data"] == {"n": 1}
    assert fields["content-type"].startswith(b"application/cloudevents+json")


async def test_what_a_lane_keeps(place: Place, client: redis.Redis) -> None:
    """Who leads can be read there; the last receipts are there and no more."""
    async with place.handoff(token=7) as handoff:
        for position in range(1, RECEIPTS_KEPT + 4):
            await handoff.publish([row(position)])
    lane = client.hgetall(f"{place.prefix}fencepost:lane:{place.lane.name}")
    assert (lane[b"fence"], lane[b"owner"], lane[b"token"]) == (b"1", b"relay-7", b"7")
    kept = entries(client, f"{place.prefix}fencepost:receipts:{place.lane.name}")
    assert [Receipt.decode(fields["receipt"]).positions for fields in kept] == [
        (position,) for position in range(4, RECEIPTS_KEPT + 4)
    ]


async def test_a_server_that_forgot_the_scripts_is_told_them_again(place: Place, client: redis.Redis) -> None:
    async with place.handoff() as handoff:
        await handoff.publish([row(1)])
        client.script_flush()
        await handoff.publish([row(2)])
    assert len(ids(client, f"{place.prefix}orders")) == 2


async def test_streams_are_trimmed_only_where_it_is_asked_for(place: Place, client: redis.Redis) -> None:
    async with place.handoff() as handoff:
        await handoff.publish(rows(1500, topic="kept"))
    async with place.handoff(token=2, maxlen=100) as handoff:
        await handoff.publish(rows(1500, topic="trimmed"))
    assert client.xlen(f"{place.prefix}kept") == 1500
    assert 100 <= client.xlen(f"{place.prefix}trimmed") < 400  # whole nodes of a hundred entries go


async def test_a_batch_that_is_too_much_for_one_script(
    place: Place, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is there with its receipt, and the receipts of two batches are kept."""
    monkeypatch.setattr(parts, "PART_WORDS", 300)
    batch = rows(150)
    async with place.handoff() as handoff:
        outcome = await handoff.publish(batch)
        assert list(outcome.published) == batch
        assert 5 < len(handoff.receipts) <= parts.PARTS_MAX
        assert handoff.receipts.named() == names(batch)
    assert ids(client, f"{place.prefix}orders") == ids_of(batch)
    assert await place.named() == names(batch)


# -- what cannot be added to -----------------------------------------------------------------------------------------


async def test_a_key_that_is_something_else_holds_its_topic_alone(place: Place, client: redis.Redis) -> None:
    client.set(f"{place.prefix}mine", "1")
    good, bad = rows(3), row(9, topic="mine")
    async with place.handoff() as handoff:
        outcome = await handoff.publish([*good, bad])
        assert ids(client, f"{place.prefix}orders") == []
        assert [f.message for f in outcome.failed] == [bad]
        assert outcome.failed[0].whole_topic
        assert type(outcome.failed[0].error) is ConfigurationError  # somebody may rename the key: it is not parked
        assert "is no stream but a string" in str(outcome.failed[0].error)
        assert list((await handoff.publish(good)).published) == good
        client.delete(f"{place.prefix}mine")
        assert list((await handoff.publish([bad])).published) == [bad]


async def test_a_key_that_becomes_something_else_leaves_nothing_half_done(place: Place, client: redis.Redis) -> None:
    """Redis undoes nothing: the script looks before it writes."""
    async with place.opened() as one:
        handoff = await place.owner(one)
        await handoff.publish([row(1), row(2, topic="other")])
        client.delete(f"{place.prefix}other")
        client.set(f"{place.prefix}other", "1")
        batch = [row(3), row(4, topic="other")]
        with pytest.raises(Contention, match="became something else"):
            await handoff.publish(batch)
        with pytest.raises(ConnectionLost):
            await handoff.publish(batch)
        assert len(ids(client, f"{place.prefix}orders")) == 1
        again = await place.owner(one, 2)
        assert len(again.receipts) == 1
        assert [f.message for f in (await again.publish(batch)).failed] == batch[1:]


async def test_the_stream_of_an_outbox_is_never_written_to(place: Place, client: redis.Redis) -> None:
    """An entry with a time as its id would end the outbox: no later position is taken there."""
    outbox = RedisOutbox(prefix=place.prefix)
    with client.pipeline() as pipe:
        outbox.add(pipe, "orders", {}, key="1")
        pipe.execute()
    async with place.handoff() as handoff:
        (failure,) = (await handoff.publish([row(1, topic="outbox")])).failed
        assert "are no times" in str(failure.error)
    with client.pipeline() as pipe:
        outbox.add(pipe, "orders", {}, key="1")
        pipe.execute()
    assert client.xlen(f"{place.prefix}outbox") == 2


async def test_without_create_streams_must_be_there(place: Place, client: redis.Redis) -> None:
    client.xgroup_create(f"{place.prefix}orders", "billing", mkstream=True)
    async with place.opened(create=False) as one:
        await one.prepare(place.lane, ["orders"])
        with pytest.raises(SchemaMissing, match="there is no stream"):
            await one.prepare(place.lane, ["orders", "payments"])
        handoff = await place.owner(one)
        await handoff.publish([row(1)])
        (failure,) = (await handoff.publish([row(2), row(3, topic="payments")])).failed
        assert (failure.message.topic, failure.whole_topic) == ("payments", True)
        assert type(failure.error) is SchemaMissing
        assert "MKSTREAM" in failure.error.remedy
        client.delete(f"{place.prefix}orders")
        with pytest.raises(Contention):
            await handoff.publish([row(2)])
        (failure,) = (await (await place.owner(one, 2)).publish([row(2)])).failed
        assert type(failure.error) is SchemaMissing
    assert client.exists(f"{place.prefix}orders", f"{place.prefix}payments") == 0


async def test_what_is_no_receipt_is_named(place: Place, client: redis.Redis) -> None:
    client.xadd(f"{place.prefix}fencepost:receipts:{place.lane.name}", {"temperature": "20"}, id="2-7")
    async with place.opened() as one:
        with pytest.raises(FixError, match="the entry 2-7"):
            await place.owner(one)
