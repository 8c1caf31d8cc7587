"""SQS against a real server: what fails alone, what waits, what is lost on the way."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from fencepost import app
from fencepost.aws.publishing import encode
from fencepost.envelope import Format
from fencepost.errors import ConnectionLost, GuaranteeUnavailable, ParkError, SchemaMissing
from fencepost.events import Event, MessageParked, TopicHeld
from tests.brokers.aws_kit import LANE, Queues, lossy, made, owner
from tests.brokers.relays import add, configured, until, waiting
from tests.brokers.rows import row, term


@pytest.fixture
def queues(sqs_url: str) -> Queues:
    return Queues(sqs_url)


async def test_a_message_that_is_refused_holds_back_the_rest_of_its_key(
    queues: Queues, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request is not all or nothing: two messages of a key never travel in one."""
    monkeypatch.setattr(encode, "_ODD", re.compile(r"(?!)"))  # now the server finds the character, and not we
    good = {"content_type": "text/plain", "topic": fresh_name}
    batch = [row(n, key=key, **good) for n, key in enumerate("aabbcc", start=1)]
    batch[2] = batch[2]._replace(payload=b"bell \x07")
    async with owner(queues.url, form=Format.PLAIN) as handoff:
        outcome = await handoff.publish(batch)
    assert [m.position for m in outcome.published] == [1, 2, 5, 6]
    (failure,) = outcome.failed
    assert failure.message.position == 3
    assert isinstance(failure.error, ParkError)
    assert not failure.whole_topic
    assert [seen.headers["id"] for seen in queues.read(f"{fresh_name}.fifo")] == [m.id for m in outcome.published]


async def test_what_only_the_server_finds_too_large_is_parked_alone(queues: Queues, fresh_name: str) -> None:
    """E1: the server refuses the whole request and says of whom; the others go out once."""
    batch = [row(n, fresh_name, key=f"k{n}") for n in range(1, 9)]
    batch[3] = batch[3]._replace(payload=b'"' + b"x" * 270_000 + b'"')
    async with owner(queues.url, message_bytes_max=1_048_576) as handoff:
        outcome = await handoff.publish(batch)
    assert [m.position for m in outcome.published] == [1, 2, 3, 5, 6, 7, 8]
    (failure,) = outcome.failed
    assert isinstance(failure.error, ParkError)
    assert failure.error.at_once
    assert "MessageTooLong" in str(failure.error)
    assert sorted(seen.id for seen in queues.read(f"{fresh_name}.fifo")) == sorted(m.id for m in outcome.published)


async def test_large_messages_travel_in_several_requests(queues: Queues, fresh_name: str) -> None:
    batch = [row(n, fresh_name, key=f"k{n}", payload=b'"' + b"x" * 100_000 + b'"') for n in range(1, 9)]
    async with owner(queues.url) as handoff:
        assert (await handoff.publish(batch)).published == batch
    assert len(queues.messages(f"{fresh_name}.fifo")) == 8


async def test_a_queue_that_is_missing_holds_back_its_own_topic(queues: Queues, fresh_name: str) -> None:
    there, missing = f"{fresh_name}.there", f"{fresh_name}.missing"
    queues.make(f"{fresh_name}--there.fifo", FifoQueue="true")
    batch = [row(1, missing, key="a"), row(2, there, key="b"), row(3, missing, key="c")]
    async with owner(queues.url, create=False) as handoff:
        outcome = await handoff.publish(batch)
        assert [m.position for m in outcome.published] == [2]
        assert [f.message.position for f in outcome.failed] == [1, 3]
        assert all(isinstance(f.error, SchemaMissing) and f.whole_topic for f in outcome.failed)
        queues.make(f"{fresh_name}--missing.fifo", FifoQueue="true")
        assert len((await handoff.publish([batch[0], batch[2]])).published) == 2


async def test_a_queue_that_was_deleted_is_made_again(queues: Queues, fresh_name: str) -> None:
    queue = f"{fresh_name}.fifo"
    async with owner(queues.url) as handoff:
        await handoff.publish([row(1, fresh_name)])
        with queues._client() as sqs:
            sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=queue)["QueueUrl"])
        (failure,) = (await handoff.publish([row(2, fresh_name)])).failed
        assert failure.whole_topic
        assert len((await handoff.publish([row(2, fresh_name)])).published) == 1
    assert len(queues.messages(queue)) == 1


async def test_two_topics_never_share_a_queue(queues: Queues, fresh_name: str) -> None:
    """E4: a.b beside a_b, and what cannot be a queue is refused alone."""
    topics = [f"{fresh_name}.b", f"{fresh_name}_b", f"{fresh_name}-b", f"{fresh_name}--b", f"{fresh_name}/b"]
    batch = [row(n, topic, key="k") for n, topic in enumerate(topics, start=1)]
    async with owner(queues.url) as handoff:
        outcome = await handoff.publish(batch)
    assert outcome.published == batch[:3]
    assert all(isinstance(f.error, ParkError) and f.error.at_once for f in outcome.failed)
    assert queues.names(fresh_name) == sorted(f"{fresh_name}{end}.fifo" for end in ("--b", "_b", "-b"))


async def test_one_queue_for_all_topics(queues: Queues, fresh_name: str) -> None:
    batch = [row(n, f"{fresh_name}.{n}", key="k") for n in (1, 2)]
    async with owner(queues.url, create=False, queue=fresh_name) as handoff:
        with pytest.raises(SchemaMissing):
            await handoff.publish(batch)
    async with owner(queues.url, queue=fresh_name) as handoff:
        assert (await handoff.publish(batch)).published == batch
    told = [m["MessageAttributes"]["fencepost-topic"]["StringValue"] for m in queues.messages(f"{fresh_name}.fifo")]
    assert sorted(told) == [m.topic for m in batch]


async def test_bytes_in_binary_mode_survive(queues: Queues, fresh_name: str) -> None:
    payloads = [bytes(range(256)), b"", b"bell \x07", b" \r\n\t text", None]
    batch = [row(n, fresh_name, key="k", payload=payload) for n, payload in enumerate(payloads, start=1)]
    async with owner(queues.url, form=Format.CLOUDEVENTS_BINARY) as handoff:
        assert (await handoff.publish(batch)).published == batch
    assert [seen.payload for seen in queues.read(f"{fresh_name}.fifo")] == payloads


@pytest.mark.parametrize("fifo", [True, False])
async def test_an_answer_that_is_lost(queues: Queues, fresh_name: str, fifo: bool) -> None:
    """A5: FIFO drops the repeat. Without it there are two, and only the second one is marked: the library itself must
    not repeat a request.
    """
    queue = f"{fresh_name}.fifo" if fifo else fresh_name
    batch = [row(n, fresh_name, key=f"k{n}") for n in (1, 2, 3)]
    async with lossy(queues.url) as way:
        broker = made(way.url, fifo=fifo)
        handoff = await broker.take_over(LANE, term())
        await broker.prepare(LANE, [fresh_name])
        way.loses = True
        with pytest.raises(ConnectionLost):
            await handoff.publish(batch)
        assert way.lost == 1
        way.loses = False
        with pytest.raises(ConnectionLost):
            await handoff.publish(batch)
        again = await broker.take_over(LANE, term(2))
        assert len((await again.publish([m._replace(in_doubt=True) for m in batch])).published) == 3
        await broker.close()
    marks = [seen.attributes.get("possiblerepeat", "first") for seen in queues.read(queue)]
    assert marks == ["first"] * 3 + ([] if fifo else ["true"] * 3)


# -- through a relay -----------------------------------------------------------------------------------------------


async def test_a_missing_queue_is_waited_for_and_parks_nothing(queues: Queues, fresh_name: str, tmp_path: Path) -> None:
    there, missing, events = f"{fresh_name}-there", f"{fresh_name}-missing", list[Event]()
    queues.make(f"{there}.fifo", FifoQueue="true")
    config = configured(queues.url, tmp_path, BROKER__CREATE="false")
    await app.schema(config).apply()
    add(tmp_path, missing, there, missing, there, key="k")
    relay = app.relay(config, events.append)
    running = asyncio.ensure_future(relay.run())
    try:
        await until(lambda: waiting(tmp_path) == [missing, missing])
        await until(lambda: any(isinstance(event, TopicHeld) for event in events))
        queues.make(f"{missing}.fifo", FifoQueue="true")
        await until(lambda: waiting(tmp_path) == [])
    finally:
        relay.stop()
        await running
    assert not any(isinstance(event, MessageParked) for event in events)
    assert [seen.attributes["entityversion"] for seen in queues.read(f"{missing}.fifo")] == ["1", "2"]


@pytest.mark.parametrize(("fifo", "given"), [("true", "deduplicated"), ("false", "at-least-once")])
async def test_exactly_once_is_refused_with_what_can_be_had(
    queues: Queues, tmp_path: Path, fifo: str, given: str
) -> None:
    config = configured(queues.url, tmp_path, RELAY__DELIVERY="exactly-once", BROKER__FIFO=fifo)
    await app.schema(config).apply()
    report = await app.check(config)
    assert (report.ok, report.delivery_possible, report.delivery_in_force) == (False, given, None)
    (finding,) = [finding for finding in report.findings if finding.level == "error"]
    assert f"gives {given!r} (SQS" in finding.what
    with pytest.raises(GuaranteeUnavailable):
        await app.relay(config, list[Event]().append).run()


async def test_the_check_says_that_the_only_queue_is_missing(queues: Queues, fresh_name: str, tmp_path: Path) -> None:
    config = configured(queues.url, tmp_path, BROKER__QUEUE=fresh_name, BROKER__CREATE="false")
    await app.schema(config).apply()
    report = await app.check(config)
    (finding,) = [finding for finding in report.findings if finding.level == "error"]
    assert f"{fresh_name}.fifo" in finding.what
    assert queues.names(fresh_name) == []
