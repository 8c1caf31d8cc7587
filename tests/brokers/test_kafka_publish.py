"""What a reader of a real Kafka finds: contents, places, and what is kept out."""

import asyncio
import os
import struct
import time
from contextlib import suppress

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not exported by name
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from fencepost.brokers.kafka.clients import Clients
from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.pair import MustAbort, Pair
from fencepost.brokers.kafka.settings import parse
from fencepost.brokers.kafka.topics import Topics
from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import ConfigurationError, ConnectionLost, RetryError
from fencepost.ports import Broker, Delivery, Lane
from fencepost.receipt import digest
from tests.brokers.kafka_kit import headers, ids, message, messages, opened, options, owning, read


def make_topic(url: str, name: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": url.removeprefix("kafka://")})
    topic = NewTopic(name, partitions, 1, config={n.replace("_", "."): v for n, v in config.items()})
    admin.create_topics([topic])[name].result(10)


def alter_topic(url: str, name: str, setting: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": url.removeprefix("kafka://")})
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(10)


async def test_it_is_atomic(kafka_url: str) -> None:
    async with opened(kafka_url) as kafka:
        capabilities = await kafka.open()
    assert capabilities.delivery is Delivery.ATOMIC
    assert capabilities.message_bytes_max == 1_000_000
    assert capabilities.batch_max is not None
    assert capabilities.batch_max > 10_000


async def test_messages_arrive_as_they_were(kafka_url: str, fresh_name: str) -> None:
    """Cases E3, E6, E7: payloads byte by byte, a tombstone as null, texts in UTF-8."""
    payloads: list[bytes | None] = [
        b"",
        None,
        b"\x00\xff",
        '{"a": "ä🎈", "b": [], "c": 1e400}'.encode(),
        b"x" * 100_000,
    ]
    batch = [message(n, fresh_name, key=f"kéy-{n}", payload=payload) for n, payload in enumerate(payloads)]
    batch[0] = batch[0]._replace(headers={"traceparent": "00-1", "name": "Zoë", "empty": ""}, in_doubt=True)
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        outcome = await handoff.publish(batch)
    assert outcome.published == batch
    assert not outcome.failed
    records = {record.key(): record for record in read(kafka_url, fresh_name)}
    assert [records[f"kéy-{n}".encode()].value() for n in range(len(payloads))] == payloads
    assert headers(records["kéy-0".encode()]) == {
        "ce_specversion": "1.0",
        "ce_source": "/orders",
        "ce_type": "order.created",
        "content-type": "application/json",
        "ce_id": batch[0].id,
        "ce_time": "2026-03-01T12:00:00.000250+00:00",
        "ce_subject": "kéy-0",
        "ce_entityversion": "1",
        "ce_possiblerepeat": "true",
        "traceparent": "00-1",
        "name": "Zoë",
        "empty": "",
    }


async def test_a_message_without_a_key(kafka_url: str, fresh_name: str) -> None:
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        await handoff.publish([message(1, fresh_name, key=None)])
    (record,) = read(kafka_url, fresh_name)
    assert record.key() is None
    assert not {"ce_subject", "ce_entityversion"} & headers(record).keys()


async def test_many_batches_keep_their_order(kafka_url: str, fresh_name: str) -> None:
    """Case A14 too: the last message has as many headers as the first."""
    make_topic(kafka_url, fresh_name)
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        for first in range(0, 1000, 100):
            await handoff.publish(messages(100, fresh_name, first=first))
    records = read(kafka_url, fresh_name)
    assert ids(records) == [m.id for m in messages(1000, fresh_name)]
    assert {len(headers(record)) for record in records} == {8}


def murmur2(data: bytes) -> int:
    """The hash of Java's default partitioner, as a signed number of 32 bits."""
    mask, multiplier = 0xFFFF_FFFF, 0x5BD1_E995
    value = (0x9747_B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for (part,) in struct.iter_unpack("<I", data[:whole]):
        part = part * multiplier & mask
        part = (part ^ part >> 24) * multiplier & mask
        value = (value * multiplier & mask) ^ part
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * multiplier & mask
    value = (value ^ value >> 13) * multiplier & mask
    value ^= value >> 15
    return value - (1 << 32) if value >> 31 else value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_the_hash_is_that_of_java(text: str, expected: int) -> None:
    assert murmur2(text.encode()) == expected


async def test_keys_land_where_java_puts_them(kafka_url: str, fresh_name: str) -> None:
    """Case E5."""
    make_topic(kafka_url, fresh_name, partitions=5)
    batch = [message(n, fresh_name, key=f"customer-{n}-é") for n in range(60)]
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        await handoff.publish(batch)
    records = read(kafka_url, fresh_name)
    assert len(records) == len(batch)
    for record in records:
        key = record.key()
        assert key is not None
        assert record.partition() == (murmur2(key) & 0x7FFF_FFFF) % 5


async def test_another_partitioner_can_be_chosen(kafka_url: str, fresh_name: str) -> None:
    make_topic(kafka_url, fresh_name, partitions=5)
    batch = [message(n, fresh_name, key=f"customer-{n}") for n in range(60)]
    async with (
        opened(kafka_url, {"partitioner": "consistent_random"}) as kafka,
        owning(kafka, Lane(fresh_name)) as handoff,
    ):
        await handoff.publish(batch)
    places = {record.key(): record.partition() for record in read(kafka_url, fresh_name)}
    assert any(place != (murmur2(key or b"") & 0x7FFF_FFFF) % 5 for key, place in places.items())


async def test_topics_are_created_with_the_partitions_that_were_asked_for(kafka_url: str, fresh_name: str) -> None:
    async with (
        opened(kafka_url, {"partitions": 3}) as kafka,
        owning(kafka, Lane(fresh_name)) as handoff,
    ):
        outcome = await handoff.publish([message(1, f"{fresh_name}-a"), message(2, f"{fresh_name}-b")])
        assert len(outcome.published) == 2
    for topic in (f"{fresh_name}-a", f"{fresh_name}-b"):
        assert len(read(kafka_url, topic)) == 1
        client = AdminClient({"bootstrap.servers": kafka_url.removeprefix("kafka://")})
        assert len(client.list_topics(topic, timeout=10).topics[topic].partitions) == 3


async def test_an_empty_batch_is_nothing(kafka_url: str, fresh_name: str) -> None:
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        outcome = await handoff.publish([])
        assert (list(outcome.published), list(outcome.failed)) == ([], [])
        assert len(handoff.receipts) == 0


# -- messages that Kafka does not take -----------------------------------------------------------------------------


async def test_one_that_is_too_large_for_the_client(kafka_url: str, fresh_name: str) -> None:
    """Case E1."""
    make_topic(kafka_url, fresh_name)
    batch = messages(100, fresh_name)
    batch[41] = batch[41]._replace(payload=b"x" * 1_100_000)
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        outcome = await handoff.publish(batch)
        (failure,) = outcome.failed
        assert failure.message is batch[41]
        assert failure.at_once
        assert "MSG_SIZE_TOO_LARGE" in str(failure.error)
        assert "(in [broker], 1,000,000) and max.message.bytes of the topic (1,048,588);" in failure.error.remedy
        assert not read(kafka_url, fresh_name)
        rest = [m for m in batch if m is not batch[41]]
        assert (await handoff.publish(rest)).published == rest
    assert ids(read(kafka_url, fresh_name)) == [m.id for m in rest]


async def test_the_limits_of_a_message_are_told_as_they_are(kafka_url: str, fresh_name: str) -> None:
    make_topic(kafka_url, fresh_name, max_message_bytes="70000")
    batch = [message(n, fresh_name, payload=os.urandom(6000)) for n in range(3)]
    settings = {"message.max.bytes": 5000}
    async with opened(kafka_url, settings) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        for limit in ("70,000", "80,000"):
            failed = (await handoff.publish(batch)).failed
            assert len(failed) == 3
            for failure in failed:
                said = f"(in [broker], 5,000) and max.message.bytes of the topic ({limit});"
                assert said in failure.error.remedy
            alter_topic(kafka_url, fresh_name, "max.message.bytes", "80000")


def test_a_limit_that_nobody_tells(kafka_url: str, fresh_name: str) -> None:
    """As where the relay's user may not read the topic's settings."""
    settings = parse(options(kafka_url, {"message.max.bytes": 5000}))
    topics = Topics(settings, Clients(settings).admin, create=False)
    said = topics.size_limits(fresh_name, Deadline(SYSTEM_CLOCK, 10))
    assert "(in [broker], 5,000) and max.message.bytes of the topic (1,048,588 unless it is set);" in said


async def test_one_that_is_too_large_for_the_topic(kafka_url: str, fresh_name: str) -> None:
    """Case E1: Kafka refuses all that came in one piece; only the large one is to blame."""
    make_topic(kafka_url, fresh_name, max_message_bytes="20000")
    batch = messages(100, fresh_name)
    batch[41] = batch[41]._replace(payload=os.urandom(50_000))
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        outcome = await handoff.publish(batch)
        assert [f.message.position for f in outcome.failed] == [41]
        assert outcome.failed[0].at_once
        assert "max.message.bytes of the topic (20,000);" in outcome.failed[0].error.remedy
        rest = [m for m in batch if m is not batch[41]]
        assert (await handoff.publish(rest)).published == rest
    assert ids(read(kafka_url, fresh_name)) == [m.id for m in rest]


async def test_a_topic_whose_limit_is_below_a_batch(kafka_url: str, fresh_name: str) -> None:
    """No message is too large: smaller pieces are sent from then on."""
    make_topic(kafka_url, fresh_name, max_message_bytes="70000")
    lane = Lane(fresh_name)
    batch = [message(n, fresh_name, payload=os.urandom(1000)) for n in range(800)]
    refusals: list[str] = []

    async def is_sent(kafka: Broker) -> bool:
        async with owning(kafka, lane) as handoff:
            try:
                return (await handoff.publish(batch)).published == batch
            except RetryError as error:
                refusals.append(str(error))
                return False

    async with opened(kafka_url) as kafka:
        while not await is_sent(kafka):
            assert len(refusals) < 4, refusals
    assert refusals
    assert all("too large" in refusal for refusal in refusals)
    assert ids(read(kafka_url, fresh_name)) == [m.id for m in batch]


async def test_messages_without_a_key_in_a_compacted_topic(kafka_url: str, fresh_name: str) -> None:
    make_topic(kafka_url, fresh_name, cleanup_policy="compact")
    other = f"{fresh_name}-other"
    make_topic(kafka_url, other)
    batch = messages(30, fresh_name)
    batch[3] = message(3, fresh_name, key=None)
    batch[17] = message(17, fresh_name, key=None)
    batch[20] = message(20, other, key=None)
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        outcome = await handoff.publish(batch)
        assert [f.message.position for f in outcome.failed] == [3, 17]
        assert all(f.at_once for f in outcome.failed)
        rest = [m for m in batch if m.position not in (3, 17)]
        assert (await handoff.publish(rest)).published == rest
    assert len(read(kafka_url, fresh_name)) == 27
    assert ids(read(kafka_url, other)) == [batch[20].id]


async def test_topics_that_cannot_be(kafka_url: str, fresh_name: str) -> None:
    """Case E4: found before anything is sent."""
    make_topic(kafka_url, fresh_name)
    names = ["a/b", "a b", "ä", "..", "x" * 250]
    batch = messages(5, fresh_name) + [message(10 + n, name) for n, name in enumerate(names)]
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        outcome = await handoff.publish(batch)
        assert [f.message.topic for f in outcome.failed] == names
        assert all(f.at_once and "A-Z a-z 0-9" in str(f.error) for f in outcome.failed)
        assert (await handoff.publish(batch[:5])).published == batch[:5]
    assert len(read(kafka_url, fresh_name, committed=False)) == 5


async def test_text_that_cannot_be_encoded(kafka_url: str, fresh_name: str) -> None:
    batch = messages(3, fresh_name)
    batch[1] = batch[1]._replace(headers={"name": "\ud800"})
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        outcome = await handoff.publish(batch)
        (failure,) = outcome.failed
        assert failure.message is batch[1]
        assert failure.at_once


async def test_a_topic_that_the_cluster_does_not_create(kafka_url: str, fresh_name: str) -> None:
    """One broker cannot keep three replicas. The message is tried again later: somebody may create the topic."""
    make_topic(kafka_url, fresh_name)
    bad = f"{fresh_name}-bad"
    batch = [message(1, fresh_name), message(2, bad)]
    # Only the topic of the receipts may be created with what the server can do.
    async with opened(kafka_url) as kafka:
        await kafka.prepare(Lane(fresh_name))
    async with (
        opened(kafka_url, {"replication_factor": 3}) as kafka,
        owning(kafka, Lane(fresh_name)) as handoff,
    ):
        outcome = await handoff.publish(batch)
        (failure,) = outcome.failed
        assert failure.message is batch[1]
        assert not failure.at_once
        assert "replication_factor" in str(failure.error)
        make_topic(kafka_url, bad)
        assert (await handoff.publish(batch)).published == batch
    assert len(read(kafka_url, bad)) == 1


async def test_a_queue_that_is_smaller_than_a_batch(kafka_url: str, fresh_name: str) -> None:
    make_topic(kafka_url, fresh_name)
    async with (
        opened(kafka_url, {"queue.buffering.max.messages": 50}) as kafka,
        owning(kafka, Lane(fresh_name)) as handoff,
    ):
        batch = messages(1000, fresh_name)
        assert (await handoff.publish(batch)).published == batch
    assert ids(read(kafka_url, fresh_name)) == [m.id for m in batch]


async def test_a_receipt_that_is_too_large(kafka_url: str, fresh_name: str) -> None:
    async with (
        opened(kafka_url, {"message.max.bytes": 5000}) as kafka,
        owning(kafka, Lane(fresh_name)) as handoff,
    ):
        with pytest.raises(ConfigurationError, match="make batches smaller"):
            await handoff.publish(messages(2000, fresh_name))
    assert not read(kafka_url, fresh_name)


# -- endings -------------------------------------------------------------------------------------------------------


async def test_a_handoff_that_was_closed_is_over(kafka_url: str, fresh_name: str) -> None:
    async with opened(kafka_url) as kafka:
        async with owning(kafka, Lane(fresh_name)) as handoff:
            await handoff.publish(messages(1, fresh_name))
        with pytest.raises(ConnectionLost):
            await handoff.publish(messages(1, fresh_name, first=1))
        await handoff.close()
    assert len(read(kafka_url, fresh_name)) == 1


async def test_a_publish_that_is_cancelled(kafka_url: str, fresh_name: str) -> None:
    """Whatever became of it, the next owner learns it from the receipts."""
    make_topic(kafka_url, fresh_name)
    lane = Lane(fresh_name)
    async with opened(kafka_url) as kafka:
        for first in range(0, 5000, 1000):
            batch = messages(1000, fresh_name, first=first)
            async with owning(kafka, lane) as handoff:
                publishing = asyncio.ensure_future(handoff.publish(batch))
                await asyncio.sleep(0.004)
                publishing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await publishing
                with pytest.raises(ConnectionLost):
                    await handoff.publish(batch)
        async with owning(kafka, lane) as handoff:
            named = {position for position, _ in handoff.receipts.named()}
    published = ids(read(kafka_url, fresh_name))
    assert published == [m.id for m in messages(5000, fresh_name) if m.position in named]


async def test_the_loop_is_not_blocked_while_a_batch_is_on_its_way(kafka_url: str, fresh_name: str) -> None:
    make_topic(kafka_url, fresh_name)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        await handoff.publish(messages(1, fresh_name))
        counting = asyncio.ensure_future(count())
        for first in range(1, 11):
            await handoff.publish(messages(1, fresh_name, first=first))
        counting.cancel()
    assert turns >= 20


async def test_the_receipts_topic_must_be_compacted(kafka_url: str, fresh_name: str) -> None:
    make_topic(kafka_url, f"fencepost.receipts.{fresh_name}")
    async with opened(kafka_url) as kafka:
        with pytest.raises(ConfigurationError, match=r"cleanup\.policy=compact"):
            await kafka.prepare(Lane(fresh_name))


async def test_a_topic_that_is_deleted_under_way(kafka_url: str, fresh_name: str) -> None:
    """It is created again; no try lasts anywhere near a minute."""
    make_topic(kafka_url, fresh_name)
    tries = 0

    async def is_sent(kafka: Broker) -> bool:
        nonlocal tries
        tries += 1
        async with owning(kafka, Lane(fresh_name)) as handoff:
            try:
                return not (await handoff.publish(messages(2, fresh_name, first=2))).failed
            except RetryError:
                return False

    async with opened(kafka_url) as kafka:
        async with owning(kafka, Lane(fresh_name)) as handoff:
            await handoff.publish(messages(2, fresh_name))
            admin = AdminClient({"bootstrap.servers": kafka_url.removeprefix("kafka://")})
            admin.delete_topics([fresh_name])[fresh_name].result(10)
            started = time.monotonic()
            with suppress(RetryError):
                await handoff.publish([message(1, f"{fresh_name}-other"), message(9, fresh_name)])
        while not await is_sent(kafka):
            assert tries < 5
        assert time.monotonic() - started < 20
    assert set(ids(read(kafka_url, fresh_name))) >= {m.id for m in messages(2, fresh_name, first=2)}


@pytest.mark.parametrize("key", [None, "k"])
async def test_d2_no_message_is_published_among_receipts(kafka_url: str, fresh_name: str, key: str | None) -> None:
    """It could replace a receipt there, and without a key the whole transaction would be refused for it."""
    lane = Lane(fresh_name)
    strangers = [message(n, f"fencepost.receipts.{name}", key=key) for n, name in enumerate((fresh_name, "other"))]
    async with opened(kafka_url) as kafka, owning(kafka, lane) as handoff:
        outcome = await handoff.publish([*strangers, message(9, fresh_name)])
        assert [failure.message for failure in outcome.failed] == strangers
        assert all(failure.at_once for failure in outcome.failed)
        assert (await handoff.publish([message(9, fresh_name)])).failed == ()
    assert len(read(kafka_url, fresh_name)) == 1


async def test_a_transaction_that_must_be_repeated_is_sent_as_a_whole(
    kafka_url: str, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was given to the producer before belongs to the transaction that was aborted."""
    commit, refusals = Pair.commit, [KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER]

    def refuse_at_first(self: Pair, deadline: Deadline) -> None:
        if refusals:
            raise MustAbort(KafkaError(refusals.pop()))
        commit(self, deadline)

    monkeypatch.setattr(Pair, "commit", refuse_at_first)
    make_topic(kafka_url, fresh_name)
    lane, batch = Lane(fresh_name), messages(1000, fresh_name)
    async with opened(kafka_url) as kafka:
        async with owning(kafka, lane) as handoff:
            assert (await handoff.publish(batch)).published == batch
        async with owning(kafka, lane, token=2) as handoff:
            assert handoff.receipts.named() == {(m.position, digest(m.id)) for m in batch}
    assert not refusals
    assert ids(read(kafka_url, fresh_name)) == [m.id for m in batch]
