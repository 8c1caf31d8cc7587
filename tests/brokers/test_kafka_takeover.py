"""Taking over: the fence, what is left of an earlier owner, and the receipts, on a real Kafka."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.brokers.kafka import broker
from fencepost.brokers.kafka.handoff import KafkaHandoff
from fencepost.brokers.kafka.pair import transactional_ids
from fencepost.brokers.kafka.publisher import Publisher
from fencepost.errors import Fenced, FixError, SchemaMissing, Unavailable
from fencepost.ports import Broker, Handoff, Lane, Term
from fencepost.receipt import RECEIPTS_KEPT, digest
from tests.brokers.kafka_kit import ids, message, messages, opened, options, owning, read

OPEN_TRANSACTION = """
import asyncio, json, sys, time
from confluent_kafka import KafkaException
from fencepost.errors import FencepostError
from fencepost.brokers.kafka.deadline import Deadline
from fencepost.clock import SYSTEM_CLOCK
from fencepost.ports import Lane, Term
from tests.brokers.kafka_kit import messages, opened

async def main(url, name, topic, batches):
    async with opened(url) as kafka:
        handoff = await kafka.take_over(Lane(name), Term(name, "child", 1))
        for n in range(batches):
            await handoff.publish(messages(1, topic, first=n))
        publisher = handoff._publisher
        producer = publisher._pair.begin()
        deadline = Deadline(SYSTEM_CLOCK, 20)
        publisher._send(producer, messages(50, topic, first=1000), deadline)
        assert producer.flush(10) == 0
        print("open", flush=True)
        sys.stdin.readline()
        try:
            publisher._pair.commit(deadline)
            print("committed", flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


@contextmanager
def child(url: str, name: str, topic: str, batches: int) -> Iterator["subprocess.Popen[str]"]:
    """An owner in another process: it published some batches and stands in the middle of a transaction."""
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN_TRANSACTION, url, name, topic, str(batches)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_the_first_take_over_finds_nothing(kafka_url: str, fresh_name: str) -> None:
    async with opened(kafka_url) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        assert len(handoff.receipts) == 0


async def test_receipts_name_what_was_published(kafka_url: str, fresh_name: str) -> None:
    lane = Lane(fresh_name)
    batches = [messages(3, fresh_name), messages(1, fresh_name, first=7)]
    named = {(m.position, digest(m.id)) for batch in batches for m in batch}
    async with opened(kafka_url) as kafka:
        async with owning(kafka, lane, "first:1", token=5) as handoff:
            for batch in batches:
                await handoff.publish(batch)
            assert handoff.receipts.named() == named
        async with owning(kafka, lane, "second:1", token=6) as handoff:
            assert handoff.receipts.named() == named
            last = handoff.receipts.last
            assert last is not None
            assert (last.fence, last.counter, last.token, last.owner) == (1, 1, 5, "first:1")
            await handoff.publish(messages(1, fresh_name, first=9))
            last = handoff.receipts.last
            assert last is not None
            assert (last.fence, last.counter, last.token, last.owner) == (2, 2, 6, "second:1")


async def test_the_last_64_receipts_are_kept(kafka_url: str, fresh_name: str) -> None:
    lane, count = Lane(fresh_name), RECEIPTS_KEPT + 9
    async with opened(kafka_url) as kafka:
        async with owning(kafka, lane) as handoff:
            for number in range(count):
                await handoff.publish([message(number, fresh_name)])
            kept = handoff.receipts.named()
        async with owning(kafka, lane) as handoff:
            assert handoff.receipts.named() == kept
            assert handoff.receipts.ranges() == [(count - RECEIPTS_KEPT, count - 1)]


async def test_a_tail_full_of_other_records_is_read_further_back(kafka_url: str, fresh_name: str) -> None:
    """Lanes of other relays may share the topic; what they wrote there is passed over."""
    shared = f"{fresh_name}-receipts"
    one, other = Lane(f"{fresh_name}-one"), Lane(f"{fresh_name}-other")
    async with opened(kafka_url, {"receipts_topic": shared}) as kafka:
        async with owning(kafka, one) as handoff:
            await handoff.publish(messages(2, fresh_name))
        async with owning(kafka, other) as handoff:
            for number in range(200):
                await handoff.publish([message(number, fresh_name)])
        async with owning(kafka, one) as handoff:
            assert handoff.receipts.ranges() == [(0, 1)]
        async with owning(kafka, other) as handoff:
            assert len(handoff.receipts) == RECEIPTS_KEPT


async def test_lanes_are_apart(kafka_url: str, fresh_name: str) -> None:
    lanes = [Lane(fresh_name, 0, 0, 99), Lane(fresh_name, 1, 100, 199), Lane(fresh_name, 2, 200, 255)]
    async with opened(kafka_url) as kafka:
        handoffs = await asyncio.gather(*(kafka.take_over(lane, Term(lane.name, "o", 1)) for lane in lanes))
        for number, handoff in enumerate(handoffs):
            await handoff.publish([message(number, fresh_name)])
        for handoff in handoffs:
            await handoff.close()
        for number, lane in enumerate(lanes):
            async with owning(kafka, lane) as handoff:
                assert handoff.receipts.ranges() == [(number, number)]
    assert len(read(kafka_url, fresh_name)) == 3


async def test_an_earlier_owner_is_refused(kafka_url: str, fresh_name: str) -> None:
    lane = Lane(fresh_name)
    async with opened(kafka_url) as kafka, owning(kafka, lane) as old:
        await old.publish(messages(2, fresh_name))
        async with owning(kafka, lane, "new:1", token=2) as new:
            with pytest.raises(Fenced):
                await old.publish(messages(2, fresh_name, first=2))
            await new.publish(messages(2, fresh_name, first=4))
    assert sorted(ids(read(kafka_url, fresh_name))) == [
        m.id for m in messages(6, fresh_name) if m.position not in (2, 3)
    ]


async def test_whichever_producer_is_next(kafka_url: str, fresh_name: str) -> None:
    """The old owner is refused by either of its two producers."""
    lane = Lane(fresh_name)
    async with opened(kafka_url) as kafka:
        for published in (0, 1, 2):
            async with owning(kafka, lane) as old:
                for number in range(published):
                    await old.publish([message(number, fresh_name)])
                async with owning(kafka, lane):
                    with pytest.raises(Fenced):
                        await old.publish([message(100, fresh_name)])
    assert message(100, fresh_name).id not in ids(read(kafka_url, fresh_name))


async def test_the_first_batch_goes_by_the_first_id(kafka_url: str, fresh_name: str) -> None:
    """What test_kafka_fence_model rests on: an owner whose first id was taken publishes nothing by its second."""
    lane = Lane(fresh_name)
    async with opened(kafka_url) as kafka:
        await kafka.prepare(lane, [fresh_name])
        first, second = transactional_ids(lane)
        async with owning(kafka, lane) as handoff:
            initialise(kafka_url, first)
            with pytest.raises(Fenced):
                await handoff.publish(messages(1, fresh_name))
        async with owning(kafka, lane) as handoff:
            initialise(kafka_url, second)
            await handoff.publish(messages(1, fresh_name, first=1))
            with pytest.raises(Fenced):
                await handoff.publish(messages(1, fresh_name, first=2))
        async with owning(kafka, lane) as handoff:
            bad = message(3, fresh_name)._replace(topic="a b")
            assert (await handoff.publish([bad])).failed
            large = message(4, fresh_name)._replace(payload=b"x" * 1_100_000)
            assert (await handoff.publish([large])).failed
            initialise(kafka_url, first)
            with pytest.raises(Fenced):
                await handoff.publish(messages(1, fresh_name, first=5))
    assert ids(read(kafka_url, fresh_name)) == [message(1, fresh_name).id]


def initialise(url: str, transactional_id: str) -> None:
    Producer(
        {"bootstrap.servers": url.removeprefix("kafka://"), "transactional.id": transactional_id}
    ).init_transactions(10)


async def test_two_owners_by_mistake_lose_and_repeat_nothing(kafka_url: str, fresh_name: str) -> None:
    """No lease at all: each takes over whenever it was fenced, and goes on after what the receipts name."""
    lane, count = Lane(fresh_name), 40

    async def own(kafka: Broker, owner: str) -> None:
        while True:
            try:
                async with owning(kafka, lane, owner) as handoff:
                    last = handoff.receipts.highest()
                    for number in range(int(last or 0) + 1, count + 1):
                        await handoff.publish([message(number, fresh_name)])
                return
            except Fenced:
                await asyncio.sleep(0.05 if owner == "a" else 0.11)

    async with opened(kafka_url) as one, opened(kafka_url) as other:
        await one.prepare(lane, [fresh_name])
        await asyncio.gather(own(one, "a"), own(other, "b"))
    assert ids(read(kafka_url, fresh_name)) == [message(n, fresh_name).id for n in range(1, count + 1)]


# -- an owner that dies or sleeps in the middle of a transaction -------------------------------------------------------


@pytest.mark.torture
@pytest.mark.parametrize("batches", [0, 1, 2])
async def test_an_owner_killed_in_the_middle(kafka_url: str, fresh_name: str, batches: int) -> None:
    """Case A11: readers see new data at once, not when the dead owner's transaction times out."""
    lane = Lane(fresh_name)
    async with opened(kafka_url) as kafka:
        await kafka.prepare(lane, [fresh_name])
        with child(kafka_url, fresh_name, fresh_name, batches) as process:
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert len(read(kafka_url, fresh_name, committed=False)) == batches + 50
            started = time.monotonic()
            async with owning(kafka, lane, "new:1", token=2) as handoff:
                assert len(handoff.receipts) == batches
                await handoff.publish([message(500, fresh_name)])
                found = await asyncio.to_thread(wait_for, kafka_url, fresh_name, batches + 1)
            taken_s = time.monotonic() - started
    assert found == [*(m.id for m in messages(batches, fresh_name)), message(500, fresh_name).id]
    assert taken_s < 5.0


@pytest.mark.torture
async def test_an_owner_that_sleeps_and_wakes_up(kafka_url: str, fresh_name: str) -> None:
    """Case A10: the late commit is refused by Kafka, and what it had sent is never seen."""
    lane = Lane(fresh_name)
    async with opened(kafka_url) as kafka:
        await kafka.prepare(lane, [fresh_name])
        with child(kafka_url, fresh_name, fresh_name, 1) as process:
            process.send_signal(signal.SIGSTOP)
            async with owning(kafka, lane, "new:1", token=2) as handoff:
                await handoff.publish([message(500, fresh_name)])
                process.send_signal(signal.SIGCONT)
                answer, _ = process.communicate("go\n", timeout=30)
                assert answer == "Fenced\n"
                await handoff.publish([message(501, fresh_name)])
    assert ids(read(kafka_url, fresh_name)) == [message(n, fresh_name).id for n in (0, 500, 501)]


async def test_a_handoff_closed_in_the_middle_leaves_nothing_open(kafka_url: str, fresh_name: str) -> None:
    """Case D11: the next owner need not wait for Kafka to abort anything."""
    lane = Lane(fresh_name)
    async with opened(kafka_url) as kafka:
        await kafka.prepare(lane, [fresh_name])
        handoff = await kafka.take_over(lane, Term(lane.name, "a", 1))
        begin_and_send(handoff, fresh_name)
        started = time.monotonic()
        await handoff.close()
        assert time.monotonic() - started < 2.0
    async with opened(kafka_url) as kafka:  # nobody has taken over: the open transaction was aborted by its owner
        other = Lane(f"{fresh_name}-other")
        async with owning(kafka, other) as handoff:
            await handoff.publish([message(1, fresh_name)])
    assert wait_for(kafka_url, fresh_name, 1) == [message(1, fresh_name).id]


def begin_and_send(handoff: Handoff, topic: str) -> None:
    assert isinstance(handoff, KafkaHandoff)
    assert isinstance(handoff._publisher, Publisher)
    producer = handoff._publisher._pair.begin()
    producer.produce(topic, b"never seen")
    assert producer.flush(10) == 0


def wait_for(url: str, topic: str, count: int) -> list[str]:
    """What a committed read gives as soon as it has ``count`` records, at the latest after 10 seconds."""
    end = time.monotonic() + 10
    while len(found := read(url, topic)) < count and time.monotonic() < end:
        time.sleep(0.02)
    return ids(found)


# -- receipts that cannot be read --------------------------------------------------------------------------------------


async def test_a_record_that_is_not_a_receipt(kafka_url: str, fresh_name: str) -> None:
    """Nobody goes on without it: the message says where it is. Without a value it is gone."""
    lane, topic = Lane(fresh_name), f"fencepost.receipts.{fresh_name}"
    async with opened(kafka_url) as kafka:
        async with owning(kafka, lane) as handoff:
            await handoff.publish(messages(1, fresh_name))
        put(kafka_url, topic, f"{lane.name}/7", b"{}")
        with pytest.raises(FixError, match=rf"{topic}\[0\] offset 2"):
            await kafka.take_over(lane, Term(lane.name, "a", 1))
        put(kafka_url, topic, f"{lane.name}/7", None)
        put(kafka_url, topic, "something else", b"{}")
        async with owning(kafka, lane) as handoff:
            assert handoff.receipts.ranges() == [(0, 0)]


def put(url: str, topic: str, key: str, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": url.removeprefix("kafka://")})
    producer.produce(topic, value, key, 0)
    assert producer.flush(10) == 0


async def test_a_strangers_open_transaction_hides_no_receipt(kafka_url: str, fresh_name: str) -> None:
    """A committed read ends before it: going on with fewer receipts would repeat messages, so nobody goes on."""
    lane, topic = Lane(fresh_name), f"fencepost.receipts.{fresh_name}"
    kafka = broker(options(kafka_url, timeout_s=3.0))
    async with owning(kafka, lane) as handoff:
        stranger = open_transaction(kafka_url, f"{fresh_name}-x", topic)
        await handoff.publish(messages(2, fresh_name))
        with pytest.raises(Unavailable, match="receipts_topic of its own"):
            await kafka.take_over(lane, Term(lane.name, "new:1", 2))
    stranger.abort_transaction(10)
    async with owning(kafka, lane) as handoff:
        assert handoff.receipts.ranges() == [(0, 1)]
    await kafka.close()


async def test_a_stranger_who_ends_soon_is_waited_for(kafka_url: str, fresh_name: str) -> None:
    lane, topic = Lane(fresh_name), f"fencepost.receipts.{fresh_name}"
    async with opened(kafka_url) as kafka, owning(kafka, lane) as old:
        stranger = open_transaction(kafka_url, f"{fresh_name}-x", topic)
        await old.publish(messages(2, fresh_name))
        taking_over = asyncio.ensure_future(kafka.take_over(lane, Term(lane.name, "new:1", 2)))
        done, _ = await asyncio.wait([taking_over], timeout=1.0)
        assert not done
        await asyncio.to_thread(stranger.commit_transaction, 10)
        handoff = await taking_over
        assert handoff.receipts.ranges() == [(0, 1)]
        await handoff.close()


def open_transaction(url: str, transactional_id: str, topic: str) -> Producer:
    producer = Producer({"bootstrap.servers": url.removeprefix("kafka://"), "transactional.id": transactional_id})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"?", b"?", 0)
    assert producer.flush(10) == 0
    return producer


async def test_without_leave_to_create_it_the_topic_of_the_receipts_must_be_there(
    kafka_url: str, fresh_name: str
) -> None:
    async with opened(kafka_url, create=False) as kafka:
        with pytest.raises(SchemaMissing, match=f"fencepost.receipts.{fresh_name}"):
            await kafka.prepare(Lane(fresh_name))
    async with opened(kafka_url) as kafka:
        await kafka.prepare(Lane(fresh_name))
    async with opened(kafka_url, create=False) as kafka:
        await kafka.prepare(Lane(fresh_name))
        with pytest.raises(SchemaMissing, match="no partition 3"):
            await kafka.prepare(Lane(fresh_name, 3))


async def test_many_may_prepare_at_once(kafka_url: str, fresh_name: str) -> None:
    async with opened(kafka_url) as one, opened(kafka_url) as other:
        lanes = [Lane(fresh_name, index) for index in range(4)]
        await asyncio.gather(*(kafka.prepare(lane, [fresh_name]) for kafka in (one, other) for lane in lanes))
        for lane in lanes:
            async with owning(one, lane) as handoff:
                await handoff.publish([message(lane.index, fresh_name)])
    assert len(read(kafka_url, fresh_name)) == 4


async def test_standing_by_fences_nobody(kafka_url: str, fresh_name: str) -> None:
    lane = Lane(fresh_name)
    async with opened(kafka_url) as one, opened(kafka_url) as other, owning(one, lane) as handoff:
        for number in range(3):
            await other.prepare(lane, [fresh_name])
            await handoff.publish([message(number, fresh_name)])
    assert len(read(kafka_url, fresh_name)) == 3


def test_the_ids_are_those_of_every_version() -> None:
    """A take-over fences these two and no others: who changes them lets an older relay publish beside a newer one."""
    assert transactional_ids(Lane("orders", 3)) == ["fencepost.orders.3", "fencepost.orders.3.second"]
