"""The fence: the last receipt of a lane decides who may publish, and what is in the stream is all or nothing."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence

import pytest

from fencepost.brokers.nats.atomic import AtomicHandoff
from fencepost.brokers.nats.encode import Encoded
from fencepost.brokers.nats.errors import Refusal
from fencepost.brokers.nats.receipts import PREVIOUS
from fencepost.brokers.nats.subjects import receipt_subject
from fencepost.errors import ConnectionLost, Contention, Fenced, FixError, GuaranteeUnavailable, RetryError
from fencepost.ports import Handoff, Lane
from fencepost.receipt import RECEIPTS_KEPT, digest
from tests.brokers.nats_kit import Place, made
from tests.brokers.rows import payloads, row, rows, term


@pytest.fixture
async def place(nats_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """A stream of its own on the shared server."""
    async with made(nats_url, fresh_name) as found:
        yield found


async def test_an_old_owner_is_refused_and_nothing_of_its_batch_is_seen(place: Place) -> None:
    """A10."""
    async with place.handoff(1) as old, place.handoff(2) as new:
        await new.publish(rows(3, start=10))
        with pytest.raises(Fenced):
            await old.publish(rows(50))
        assert await place.payloads() == [b"payload 10", b"payload 11", b"payload 12"]
        await new.publish([row(20)])
    assert [r.token for r in await place.kept() if r.positions] == [2, 2]


async def test_a_refused_handoff_stays_refused(place: Place) -> None:
    async with place.handoff(1) as old, place.handoff(2):
        with pytest.raises(Fenced):
            await old.publish([row(1)])
        with pytest.raises(ConnectionLost, match="is over"):
            await old.publish([row(1)])
    assert await place.published() == []


async def test_a_take_over_fences_an_owner_that_never_published(place: Place) -> None:
    async with place.handoff(1) as old, place.handoff(2), place.handoff(3) as new:
        with pytest.raises(Fenced):
            await old.publish([row(1)])
        await new.publish([row(2)])
    assert await place.payloads() == [b"payload 2"]


async def test_two_owners_by_mistake_fence_each_other_in_turn(place: Place) -> None:
    published: list[bytes] = []
    former: list[Handoff] = []
    async with place.opened() as one, place.opened() as two:
        for turn in range(6):
            handoff = await (one, two)[turn % 2].take_over(place.lane, term(turn))
            await handoff.publish([row(turn)])
            published.append(f"payload {turn}".encode())
            for replaced in former:
                with pytest.raises((Fenced, ConnectionLost)):
                    await replaced.publish([row(99)])
            former.append(handoff)
    assert await place.payloads() == published
    assert [r.positions for r in await place.kept() if r.positions] == [(n,) for n in range(6)]


async def test_many_take_overs_at_once_leave_exactly_one_owner(place: Place) -> None:
    async with place.opened() as broker:
        results = await asyncio.gather(
            *(broker.take_over(place.lane, term(n)) for n in range(12)), return_exceptions=True
        )
        assert all(isinstance(r, AtomicHandoff | Contention) for r in results), results
        handoffs = [r for r in results if isinstance(r, AtomicHandoff)]
        assert len(handoffs) > 1
        outcomes = await asyncio.gather(*(h.publish([row(n)]) for n, h in enumerate(handoffs)), return_exceptions=True)
    assert sum(isinstance(o, Fenced) for o in outcomes) == len(handoffs) - 1
    assert len(await place.published()) == 1


async def test_receipts_are_read_at_take_over_and_kept_up_to_date(place: Place) -> None:
    first, second, third = rows(5), rows(5, start=10), rows(5, start=20)
    async with place.handoff(1) as old:
        await old.publish(first)
        await old.publish(second)
    async with place.handoff(2) as new:
        assert new.receipts.named() == {(m.position, digest(m.id)) for m in [*first, *second]}
        await new.publish(third)
        assert new.receipts.named() == {(m.position, digest(m.id)) for m in [*first, *second, *third]}
        last = new.receipts.last
    assert last is not None
    assert (last.token, last.owner, last.counter) == (2, "relay-2", 3)
    fences = {m.sequence for m in await place.stored() if m.subject == place.receipts and m.sequence == last.fence}
    assert fences == {last.fence}, "the fence is the sequence of the take-over's own receipt"


async def test_lanes_have_receipts_of_their_own(place: Place) -> None:
    one, ten = Lane(place.name, 1), Lane(place.name, 10)
    async with place.opened() as broker:
        first = await broker.take_over(one, term())
        await first.publish([row(1)])
        second = await broker.take_over(ten, term())
        await second.publish([row(2)])
        await first.publish([row(3)])
        again = await broker.take_over(one, term())
        assert {position for position, _ in again.receipts.named()} == {1, 3}


async def test_no_more_receipts_are_kept_than_needed_and_never_fewer(place: Place) -> None:
    async with place.handoff(1) as handoff:
        for n in range(3 * RECEIPTS_KEPT):
            await handoff.publish([row(n)])
            if n % 50 == 49:
                named = [r for r in await place.kept() if r.positions]
                assert min(n + 1, RECEIPTS_KEPT) <= len(named) <= 2 * RECEIPTS_KEPT
                assert named[-1].positions == (n,)
        assert len(handoff.receipts) == RECEIPTS_KEPT
    async with place.handoff(2) as successor:
        wanted = [(n,) for n in range(2 * RECEIPTS_KEPT, 3 * RECEIPTS_KEPT)]
        assert [r.positions for r in await place.kept() if r.positions] == wanted
        assert successor.receipts.ranges() == [(2 * RECEIPTS_KEPT, 3 * RECEIPTS_KEPT - 1)]
    assert len(await place.published()) == 3 * RECEIPTS_KEPT, "only receipts are removed"


async def test_take_overs_leave_no_trail_and_push_no_receipt_out(place: Place) -> None:
    async with place.handoff(1) as handoff:
        await handoff.publish([row(1)])
    async with place.opened() as broker:
        for n in range(RECEIPTS_KEPT + 10):
            handoff = await broker.take_over(place.lane, term(n))
        assert handoff.receipts.ranges() == [(1, 1)]
        await handoff.publish([row(2)])
    assert [r.positions for r in await place.kept()] == [(), (1,), (), (2,)]


async def test_a_receipt_that_the_streams_limits_removed_is_the_end_of_the_list(place: Place) -> None:
    async with place.handoff(1) as handoff:
        for n in range(5):
            await handoff.publish([row(n)])
    async with place.client() as client:
        await client.jsm().purge_stream(place.name, seq=(await place.stored())[-4].sequence)
    async with place.handoff(2) as successor:
        assert successor.receipts.ranges() == [(3, 4)]
        await successor.publish([row(9)])


async def test_a_purged_stream_is_a_new_beginning(place: Place) -> None:
    async with place.handoff(1) as handoff:
        await handoff.publish([row(1)])
        async with place.client() as client:
            await client.jsm().purge_stream(place.name)
        with pytest.raises(Fenced):
            await handoff.publish([row(2)])
    async with place.handoff(2) as successor:
        assert len(successor.receipts) == 0
        await successor.publish([row(2)])
    assert await place.payloads() == [b"payload 2"]


async def test_a_foreign_message_among_the_receipts_is_named(place: Place) -> None:
    async with place.handoff(1) as handoff:
        await handoff.publish([row(1)])
    async with place.client() as client:
        ack = await client.jetstream().publish(place.receipts, b"hello")
    async with place.opened() as broker:
        with pytest.raises(FixError, match=f"message {ack.seq} of stream {place.name} is not a receipt"):
            await broker.take_over(place.lane, term(2))


async def test_atomic_batches_taken_away_are_reported(place: Place) -> None:
    async with place.opened() as broker:
        handoff = await broker.take_over(place.lane, term())
        await place.change(allow_atomic=False, retention="limits")
        with pytest.raises(GuaranteeUnavailable, match="allow_atomic"):
            await handoff.publish([row(1)])
    async with place.opened(create=False) as broker:
        await place.change(allow_atomic=True)
        await broker.open()
        await place.change(allow_atomic=False)
        with pytest.raises(GuaranteeUnavailable, match="allow_atomic"):
            await broker.take_over(place.lane, term())
    assert await place.published() == []


async def test_a_size_that_the_stream_began_to_refuse_voids_the_handoff(place: Place) -> None:
    async with place.opened() as broker:
        handoff = await broker.take_over(place.lane, term())
        await place.change(max_msg_size=2000)
        with pytest.raises(RetryError):
            await handoff.publish([row(1), row(2, payload=b"x" * 3000), row(3)])
        handoff = await broker.take_over(place.lane, term())
        outcome = await handoff.publish([row(1), row(2, payload=b"x" * 3000), row(3)])
    assert [f.message.position for f in outcome.failed] == [2]
    assert await place.published() == []


async def test_a_message_under_way_at_the_server_is_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster may refuse to compare for a moment (10164, nothing stored): the batch is sent again, and there once."""
    async with place.opened() as broker:
        handoff = await broker.take_over(place.lane, term())
        assert isinstance(handoff, AtomicHandoff)
        send, tries = handoff._send, []

        async def busy_twice(encoded: Sequence[Encoded], receipt: bytes) -> int:
            tries.append(1)
            if len(tries) < 3:
                raise Refusal(400, 10164, "wrong last sequence")
            return await send(encoded, receipt)

        monkeypatch.setattr(handoff, "_send", busy_twice)
        await handoff.publish([row(1)])
    assert (len(tries), await place.payloads()) == (3, [b"payload 1"])


HALF_A_BATCH = """
import asyncio, os, sys
import nats

async def main():
    client = await nats.connect(sys.argv[1])
    for number in range(1, 101):
        headers = {"Nats-Batch-Id": "half", "Nats-Batch-Sequence": str(number)}
        await client.publish(sys.argv[2], b"half", headers=headers)
    await client.flush()
    print("sent", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_client_killed_in_the_middle_of_a_batch_leaves_nothing(place: Place) -> None:
    """A8."""
    async with place.handoff(1) as handoff:
        await handoff.publish([row(1)])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HALF_A_BATCH, place.url, f"{place.name}.orders", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"sent\n"
    process.send_signal(signal.SIGKILL)
    await process.wait()
    async with place.handoff(2) as successor:
        assert successor.receipts.ranges() == [(1, 1)]
        await successor.publish([row(2)])
    assert await place.payloads() == [b"payload 1", b"payload 2"]


async def test_a_cancelled_publish_is_void_and_the_take_over_tells_the_truth(place: Place) -> None:
    batch = rows(400)
    async with place.opened() as broker:
        for delay in range(6):
            handoff = await broker.take_over(place.lane, term())
            task = asyncio.create_task(handoff.publish(batch))
            for _ in range(delay * 2):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if delay:
                with pytest.raises(ConnectionLost):
                    await handoff.publish(batch)
            successor = await broker.take_over(place.lane, term())
            seen, named = await place.payloads(), len(successor.receipts)
            assert seen == payloads(batch) * named, "each batch is there whole, with a receipt, or not at all"


async def test_receipts_point_back(place: Place) -> None:
    async with place.handoff(1) as handoff:
        await handoff.publish([row(1)])
        await handoff.publish([row(2)])
    async with place.handoff(2) as handoff:
        await handoff.publish([row(3)])
    receipts = [m for m in await place.stored() if m.subject == receipt_subject(place.lane.name)]
    by_sequence = {m.sequence: i for i, m in enumerate(receipts)}
    assert [by_sequence.get(int(m.headers[PREVIOUS])) for m in receipts] == [None, None, 1, 2, 2]
