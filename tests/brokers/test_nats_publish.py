"""Publishing through NATS: what arrives, in which order, and what is set aside before anything is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from fencepost.errors import ConfigurationError, FixError, RetryError, SchemaMissing
from fencepost.message import microseconds
from fencepost.ports import Delivery, Lane
from fencepost.receipt import digest
from tests.brokers.nats_kit import Place, made
from tests.brokers.rows import payloads, row, rows, term


@pytest.fixture
async def place(nats_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """A stream of its own on the shared server."""
    async with made(nats_url, fresh_name) as found:
        yield found


async def test_a_new_stream_gives_exactly_once(place: Place) -> None:
    broker = place.broker()
    found = await broker.open()
    async with place.client() as client:
        assert place.name not in [info.config.name for info in await client.jsm().streams_info()], (
            "looking creates none"
        )
    await broker.prepare(place.lane, ["a"])
    await broker.close()

    assert (found.delivery, found.reason, found.batch_max) == (Delivery.ATOMIC, "", 999)
    assert found.message_bytes_max == 1024 * 1024
    config = await place.config()
    assert (config.allow_atomic, config.num_replicas, config.duplicate_window) == (True, 1, 120)
    assert config.subjects == [f"fencepost.receipt.{place.name}.*", f"{place.name}.a"]


async def test_settings_shape_a_new_stream(place: Place) -> None:
    place.settings = {"subjects": [f"{place.name}.>"], "duplicate_window_s": 7, "batch_max": 50}
    broker = place.broker()
    found = await broker.open()
    await broker.prepare(place.lane, ["a"])
    await broker.close()

    config = await place.config()
    assert config.subjects == [f"{place.name}.>", f"fencepost.receipt.{place.name}.*"]
    assert (config.duplicate_window, found.batch_max) == (7, 50)


async def test_a_batch_arrives_in_order_with_its_receipt_behind_it(place: Place) -> None:
    batch = rows(30)
    async with place.handoff(token=4) as handoff:
        outcome = await handoff.publish(batch)

    assert (list(outcome.published), list(outcome.failed)) == (batch, [])
    assert await place.payloads() == payloads(batch)
    empty, receipt = await place.kept()
    assert (empty.positions, empty.token, empty.owner) == ((), 4, "relay-4")
    assert receipt.positions == tuple(m.position for m in batch)
    assert receipt.digests == tuple(digest(m.id) for m in batch)
    assert (receipt.token, receipt.owner, receipt.counter) == (4, "relay-4", 1)
    assert [m.subject for m in await place.stored()][-1] == place.receipts


async def test_the_envelope_is_cloudevents_in_binary_mode(place: Place) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
    full = row(
        1,
        "orders/eu.new",
        "Z\u00fcrich \U0001f3d4",
        version=7,
        occurred_us=microseconds(moment),
        headers={"a": "\u00e9", "b": ""},
    )
    bare = row(2, "orders", None, type="t", content_type="text/plain")
    async with place.handoff() as handoff:
        await handoff.publish([full, bare])

    first, second = await place.published()
    assert first.subject == f"{place.name}.orders/eu.new"
    assert {name: value for name, value in first.headers.items() if not name.startswith("Nats-")} == {
        "ce-specversion": "1.0",
        "ce-source": "/shop",
        "ce-type": "order.created",
        "content-type": "application/json",
        "ce-id": full.id,
        "ce-time": "2026-01-02T03:04:05.000600+00:00",
        "ce-subject": "Z\u00fcrich \U0001f3d4",
        "ce-entityversion": "7",
        "a": "\u00e9",  # E6
        "b": "",
    }
    assert (second.headers["ce-type"], second.headers["content-type"]) == ("t", "text/plain")
    assert not {"ce-subject", "ce-entityversion", "ce-possiblerepeat"} & set(second.headers)


async def test_a_possible_repeat_says_so(place: Place) -> None:
    async with place.handoff() as handoff:
        await handoff.publish([row(1, in_doubt=True)])
    (message,) = await place.published()
    assert message.headers["ce-possiblerepeat"] == "true"


@pytest.mark.parametrize("payload", [b"", b"\r\n\r\nPUB x 0\r\n\r\n", b"\x00\xff" * 500, "\U0001f600".encode() * 9000])
async def test_payloads_arrive_byte_for_byte(place: Place, payload: bytes) -> None:
    """E3."""
    async with place.handoff() as handoff:
        await handoff.publish([row(1, payload=payload), row(2)])
    assert await place.payloads() == [payload, b"payload 2"]


async def test_a_tombstone_is_an_empty_body_with_a_header(place: Place) -> None:
    """E7."""
    async with place.handoff() as handoff:
        await handoff.publish([row(1, payload=None), row(2, payload=b"")])
    tombstone, empty = await place.published()
    assert (tombstone.body, tombstone.headers["fencepost-tombstone"]) == (b"", "true")
    assert (empty.body, "fencepost-tombstone" in empty.headers) == (b"", False)


async def test_an_oversized_message_is_found_before_anything_is_sent(place: Place) -> None:
    """E1."""
    batch = rows(100)
    batch[40] = row(41, key="k5", payload=b"x" * 1_100_000)
    async with place.handoff() as handoff:
        outcome = await handoff.publish(batch)
        assert list(outcome.published) == []
        (failure,) = outcome.failed
        assert (failure.message, failure.at_once) == (batch[40], True)
        assert "1,100,000 bytes" in str(failure.error)
        assert await place.published() == []

        rest = [m for m in batch if m is not failure.message]
        assert list((await handoff.publish(rest)).published) == rest
    assert await place.payloads() == payloads(rest)


async def test_the_largest_message_that_is_let_through_arrives(place: Place) -> None:
    """E1: the size counts bytes of headers and payload; what the check accepts, the server accepts."""
    async with place.handoff() as handoff:
        (failure,) = (await handoff.publish([row(1, payload=b"x" * 1024 * 1024)])).failed
        takes = [1024 * 1024 - 1200]
        refused = 1024 * 1024
        while refused - takes[-1] > 1:
            size = (takes[-1] + refused) // 2
            if (await handoff.publish([row(1, payload=b"x" * size)])).failed:
                refused = size
            else:
                takes.append(size)
    assert failure.at_once
    assert [len(p) for p in await place.payloads()] == takes[1:]


async def test_the_stream_may_take_less_than_the_server(place: Place) -> None:
    await place.make(allow_atomic=True, max_msg_size=5000)
    async with place.handoff() as handoff:
        outcome = await handoff.publish([row(1), row(2, payload=b"x" * 5000)])
    assert [f.message.position for f in outcome.failed] == [2]


async def test_too_many_headers_are_set_aside(place: Place) -> None:
    async with place.handoff() as handoff:
        outcome = await handoff.publish([row(1), row(2, headers={f"h{i}": "v" * 100 for i in range(700)})])
    (failure,) = outcome.failed
    assert (failure.message.position, failure.at_once) == (2, True)
    assert "headers" in str(failure.error)


@pytest.mark.parametrize(
    "topic", ["a b", "a.*", "a.>", ".a", "a.", "a..b", "a\tb", "a\r\nPUB x 0\r\n", "x" * 1000, "a\u2028b"]
)
async def test_a_topic_that_cannot_be_a_subject_is_set_aside_alone(place: Place, topic: str) -> None:
    """E4."""
    async with place.handoff() as handoff:
        outcome = await handoff.publish([row(1), row(2, topic), row(3)])
        assert [(f.message.position, f.at_once) for f in outcome.failed] == [(2, True)]
        assert await place.published() == []


@pytest.mark.parametrize(
    "topic", ["$JS.API.STREAM.DELETE.X", "_INBOX.x", "fencepost.receipt.orders.0", "fencepost.receipt"]
)
async def test_a_topic_that_means_something_else_is_set_aside(place: Place, topic: str) -> None:
    place.settings = {"subject_prefix": ""}
    async with place.handoff() as handoff:
        (failure,) = (await handoff.publish([row(1, topic)])).failed
    assert failure.at_once
    assert await place.published() == []


@pytest.mark.parametrize("topics", [("a.b", "a_b"), ("a/b", "a-b"), ("caf\u00e9", "cafe"), ("x" * 249, "X" * 249)])
async def test_topics_that_look_alike_stay_apart(place: Place, topics: tuple[str, ...]) -> None:
    """E4."""
    async with place.handoff() as handoff:
        await handoff.publish([row(i, topic) for i, topic in enumerate(topics)])
    assert [m.subject for m in await place.published()] == [f"{place.name}.{topic}" for topic in topics]


async def test_new_topics_are_added_to_the_stream(place: Place) -> None:
    async with place.handoff() as handoff:
        await handoff.publish([row(1, "a"), row(2, "b.c")])
        await handoff.publish([row(3, "a"), row(4, "d")])
    assert len(await place.published()) == 4
    wanted = {f"{place.name}.a", f"{place.name}.b.c", f"{place.name}.d", f"fencepost.receipt.{place.name}.*"}
    assert wanted <= set((await place.config()).subjects)


async def test_prepare_creates_a_stream_but_changes_none_and_fences_nobody(place: Place) -> None:
    async with place.opened() as first, place.opened() as standby:
        await first.prepare(place.lane, ["a", "not a subject"])
        created = await place.config()
        assert created.subjects == [f"fencepost.receipt.{place.name}.*", f"{place.name}.a"]
        owner = await first.take_over(place.lane, term())
        await owner.publish([row(1, "a")])
        for _ in range(3):
            await standby.prepare(place.lane, ["b"])
        await owner.publish([row(2, "a")])
        assert await place.config() == created


async def test_a_wider_subject_replaces_narrower_ones(place: Place) -> None:
    async with place.handoff() as handoff:
        await handoff.publish([row(1, "a.b"), row(2, "a.c"), row(3, "d")])
    place.settings = {"subjects": [f"{place.name}.a.>"]}
    async with place.handoff(2):
        config = await place.config()
    assert f"{place.name}.a.>" in config.subjects
    assert f"{place.name}.d" in config.subjects
    assert f"{place.name}.a.b" not in config.subjects


async def test_a_subject_that_the_stream_lost_is_added_again(place: Place) -> None:
    """Somebody else who changes the stream may overwrite it: the batch is refused whole, a take-over helps."""
    receipts = f"fencepost.receipt.{place.name}.*"
    before: list[bytes] = []
    async with place.opened() as broker:
        for subjects in ([receipts, f"{place.name}.b"], [receipts, f"{place.name}.a"]):
            handoff = await broker.take_over(place.lane, term())
            await handoff.publish([row(1, "a"), row(2, "b")])
            before = await place.payloads()
            await place.change(subjects=subjects)
            with pytest.raises(RetryError):
                await handoff.publish([row(3, "a"), row(4, "b")])
            assert await place.payloads() == before
        handoff = await broker.take_over(place.lane, term())
        await handoff.publish([row(5, "a"), row(6, "b")])
    assert await place.payloads() == [*before, b"payload 5", b"payload 6"]


async def test_a_subject_of_another_stream_is_named(place: Place) -> None:
    other = Place(place.url, f"{place.name}-other")
    async with other.client() as client:
        await client.jsm().add_stream(name=other.name, subjects=[f"{place.name}.taken"])
    try:
        async with place.handoff() as handoff:
            with pytest.raises(FixError, match=f"{place.name}.taken.*belongs to the stream {other.name}"):
                await handoff.publish([row(1, "free"), row(2, "taken")])
            assert await place.published() == []
        place.settings = {"subjects": [f"{place.name}.>"]}
        with pytest.raises(FixError, match=f"belongs to the stream {other.name}"):
            async with place.handoff(2):
                pytest.fail("it must not take over")
    finally:
        await other.drop()


async def test_a_stream_is_not_created_without_leave(place: Place) -> None:
    with pytest.raises(SchemaMissing, match="allow_atomic") as caught:
        async with place.opened(create=False):
            pytest.fail("it must not open")
    assert "create = true" in caught.value.remedy
    async with place.client() as client:
        assert place.name not in [info.config.name for info in await client.jsm().streams_info()]


async def test_a_subject_is_not_added_without_leave(place: Place) -> None:
    await place.make(allow_atomic=True, subjects=[f"{place.name}.a", "fencepost.receipt." + place.name + ".*"])
    async with place.handoff(create=False) as handoff:
        await handoff.publish([row(1, "a")])
        with pytest.raises(SchemaMissing, match=f"does not take '{place.name}.b'"):
            await handoff.publish([row(2, "b")])
    assert (await place.config()).subjects == [f"{place.name}.a", f"fencepost.receipt.{place.name}.*"]


async def test_the_place_of_the_receipts_is_not_added_without_leave(place: Place) -> None:
    await place.make(allow_atomic=True, subjects=[f"{place.name}.>"])
    async with place.opened(create=False) as broker:
        with pytest.raises(SchemaMissing, match=r"fencepost\.receipt"):
            await broker.prepare(place.lane)
        with pytest.raises(SchemaMissing, match=r"fencepost\.receipt"):
            await broker.take_over(place.lane, term())


async def test_a_large_batch_is_sent_in_pieces(place: Place) -> None:
    """More bytes than the server's queue for a stream may hold at once are one batch nevertheless."""
    batch = [row(i, payload=bytes([i % 256]) * 900_000) for i in range(1, 24)]
    async with place.handoff() as handoff:
        await handoff.publish(batch)
        await handoff.publish([row(50)])
    assert await place.payloads() == [*payloads(batch), b"payload 50"]
    assert [len(r.positions) for r in await place.kept()] == [0, 23, 1]


async def test_the_largest_batch(place: Place) -> None:
    batch = rows(999)
    async with place.handoff() as handoff:
        outcome = await handoff.publish(batch)
    assert list(outcome.published) == batch
    async with place.client() as client:
        assert (await client.jsm().stream_info(place.name)).state.messages == 1001


async def test_a_batch_larger_than_the_server_takes_is_refused_with_the_remedy(place: Place) -> None:
    async with place.handoff() as handoff:
        with pytest.raises(ConfigurationError, match="batch_max"):
            await handoff.publish(rows(1000))
    assert await place.published() == []


async def test_an_empty_batch_is_nothing(place: Place) -> None:
    async with place.handoff() as handoff:
        assert list((await handoff.publish([])).published) == []
    assert [len(r.positions) for r in await place.kept()] == [0]


async def test_text_positions_come_back(place: Place) -> None:
    batch = [row(0)._replace(position=f"0/16B37{i:02X}") for i in range(20)]
    async with place.handoff() as handoff:
        await handoff.publish(batch)
    async with place.handoff(token=2) as successor:
        assert successor.receipts.named() == {(m.position, digest(m.id)) for m in batch}


async def test_several_lanes_share_a_connection(place: Place) -> None:
    lanes = [Lane(place.name, i, i * 64, i * 64 + 63) for i in range(4)]
    async with place.opened() as broker:
        handoffs = [await broker.take_over(lane, term()) for lane in lanes]
        for n in range(3):
            for i, handoff in enumerate(handoffs):
                await handoff.publish(rows(5, start=100 * i + 10 * n))
        assert [len(h.receipts) for h in handoffs] == [3, 3, 3, 3]
    assert len(await place.payloads()) >= 60
