"""The lane's algorithm on servers in memory: what it promises, fault by fault."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from fencepost.brokers.memory import MemoryBroker, MemoryHandoff
from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.memory import MemorySession
from fencepost.errors import (
    AccessDenied,
    Contention,
    DeadlineExceeded,
    Fenced,
    LeaseLost,
    ParkError,
    SchemaMissing,
    Unavailable,
)
from fencepost.events import (
    CircuitClosed,
    CircuitOpened,
    DatabaseFellBack,
    MessageFailed,
    MessageParked,
    NoAnswer,
    NotSettled,
    OwnerFenced,
    Published,
    ReceiptsSettled,
)
from fencepost.message import Position, Stored
from fencepost.ports import Failure, Lane, Outcome
from fencepost.relay import lane as lane_module
from fencepost.relay import silence
from tests.relay.world import FAST, LANE, check_exactly_once, new_world, per_key


async def test_everything_committed_is_published_in_order_and_settled() -> None:
    world = new_world()
    world.commit(*"abcab", None, "c")
    async with world.owned():
        await world.drained()
        world.commit("a", "b")
        await world.drained()
    check_exactly_once(world)
    assert [m.id for m in world.committed] == world.published()


async def test_a3_b1_c1_a_transaction_that_commits_late_is_late_not_lost() -> None:
    world = new_world()
    late = world.database.transaction()
    message = late.add(world.message("late"))
    world.commit(*"abcdefghij")
    async with world.owned():
        await world.drained()
        late.commit()
        await world.until(lambda: message.id in world.published())
    assert world.published().count(message.id) == 1
    check_exactly_once(world)


async def test_b1_a_transaction_that_commits_between_two_pages_keeps_the_order_of_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first row is below the page that shows its second one."""
    world = new_world()
    late = world.database.transaction()
    first = late.add(world.message("late"))
    world.commit(*"abcd")
    second = late.add(world.message("late"))
    world.committed += [first, second]
    original, pages = MemorySession.pending, []

    async def pending(self: MemorySession, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        pages.append(after)
        if after is not None and len(world.database.rows) == 4:
            late.commit()
        return await original(self, lane, limit, after)

    monkeypatch.setattr(MemorySession, "pending", pending)
    async with world.owned():
        await world.drained()
    assert any(after is not None for after in pages), "there was a second page"
    check_exactly_once(world)


async def test_b7_a_refused_message_is_not_overtaken_while_the_rest_of_its_batch_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its wait ends meanwhile, and a new round shows a later one of its key further up."""
    world = new_world()
    refused, _ = world.commit("k", "x")
    original, publish = MemoryBroker.failure, MemoryHandoff.publish
    tries: list[str] = []

    def failure(self: MemoryBroker, message: Stored) -> Failure | None:
        tries.append(message.id)
        first = message.id == refused.id and tries.count(refused.id) == 1
        return Failure(message, ParkError("not now")) if first else original(self, message)

    async def slowly(self: MemoryHandoff, batch: Sequence[Stored]) -> Outcome:
        if len(tries) == 2:  # the rest of the first batch
            world.commit("k")
            await asyncio.sleep(0.1)
        return await publish(self, batch)

    monkeypatch.setattr(MemoryBroker, "failure", failure)
    monkeypatch.setattr(MemoryHandoff, "publish", slowly)
    async with world.owned(options=replace(FAST, batch=2)):
        await world.drained()
    check_exactly_once(world)


async def test_what_is_rolled_back_is_never_published() -> None:
    world = new_world()
    transaction = world.database.transaction()
    ghost = transaction.add(world.message())
    async with world.owned():
        transaction.rollback()
        world.commit("a")
        await world.drained()
    assert ghost.id not in world.published()


async def test_a5_b8_a_lost_acknowledgement_is_found_out_by_the_receipt() -> None:
    world = new_world()
    world.commit(*"aabbcc")
    world.server.gate.lose_answers(1, call="publish")
    async with world.owned():
        await world.drained()
    check_exactly_once(world)
    assert any(e.rows for e in world.seen(ReceiptsSettled) if isinstance(e, ReceiptsSettled))
    assert world.seen(CircuitOpened)
    assert world.seen(CircuitClosed)


@pytest.mark.parametrize("error", [Contention("deadlock"), Unavailable("gone"), DeadlineExceeded("slow")])
async def test_a6_a_settle_that_fails_recovers_by_itself(error: Contention | Unavailable | DeadlineExceeded) -> None:
    world = new_world()
    world.commit(*"aabbccddeeff")
    world.database.gate.fail_next(2, error, call="settle")
    async with world.owned():
        await world.drained()
    check_exactly_once(world)


async def test_a6_a_settle_that_fails_while_nothing_else_waits_is_tried_again_and_told() -> None:
    world = new_world()
    world.database.gate.fail_next(2, Unavailable("the disk is full"), call="settle")
    world.commit("a")
    async with world.owned():
        await world.drained()
    check_exactly_once(world)
    assert [e.cause for e in world.seen(CircuitOpened) if isinstance(e, CircuitOpened)] == ["the disk is full"] * 2


async def test_a6_a_settle_that_fails_at_the_end_is_told_and_left_to_the_next_owner() -> None:
    world = new_world()
    world.database.gate.latency_s = 0.05
    world.database.gate.fail_next(1, Unavailable("the disk is full"), call="settle")
    world.commit("a")
    drain = asyncio.Event()
    task = asyncio.create_task(world.owner(1, drain=drain))
    await world.until(lambda: bool(world.published()))
    drain.set()
    await asyncio.wait_for(task, 5)
    assert NotSettled(lane=LANE.name, cause="the disk is full") in world.events
    async with world.owned(2):
        await world.drained()
    check_exactly_once(world)


async def test_a6_the_answer_of_a_settle_is_lost() -> None:
    world = new_world()
    world.commit(*"aabbccddeeff")
    world.database.gate.lose_answers(2, call="settle")
    async with world.owned():
        await world.drained()
    check_exactly_once(world)


async def test_a7_a_stop_and_start_without_writes_publishes_nothing() -> None:
    world = new_world()
    world.commit("a")
    for token in range(1, 21):
        async with world.owned(token):
            await world.drained()
    assert len(world.published()) == 1


async def test_a10_two_owners_at_once_fence_each_other_and_break_nothing() -> None:
    world = new_world()
    async with asyncio.timeout(10):
        for turn in range(30):
            world.commit(*"abcabc")
            old = asyncio.create_task(world.owner(2 * turn + 1))
            await asyncio.sleep(0.001 * (turn % 4))
            async with world.owned(2 * turn + 2):
                await world.drained()
                if not old.done():
                    world.commit("a")
                    await world.drained()
            old.cancel()
            await asyncio.gather(old, return_exceptions=True)
    check_exactly_once(world)


async def test_a10_an_owner_that_was_replaced_stops_at_once() -> None:
    world = new_world()
    first = asyncio.create_task(world.owner(1))
    world.commit("a")
    await world.drained()
    async with world.owned(2):
        world.commit("b")
        await world.drained()
        world.commit("c")
        await world.until(lambda: first.done() or not world.database.rows)
    world.commit("d")
    with pytest.raises(Fenced):
        await asyncio.wait_for(first, 2)
    assert world.seen(OwnerFenced)
    async with world.owned(3):
        await world.drained()
    check_exactly_once(world)


async def test_a15_a_database_that_fell_back_repeats_nothing_and_loses_nothing() -> None:
    world = new_world()
    world.commit(*"abcd")
    snapshot = world.database.snapshot()
    before = list(world.committed)
    async with world.owned():
        await world.drained()
        world.commit("a", "b")  # these are published, then forgotten by the database
        await world.drained()
        world.database.fall_back(snapshot)
        again = world.commit("c")  # at a position that was handed out before
        await world.drained()
        later = world.commit("e")
        await world.drained()
    check_exactly_once(world, before + again + later)
    assert world.seen(DatabaseFellBack)
    positions = [p for p, _ in world.database.settled]
    assert max(positions) > 6, "later messages stand past every position that was published"


async def test_a15_the_relay_was_down_while_the_database_fell_back() -> None:
    world = new_world()
    world.commit("a", "b")
    snapshot = world.database.snapshot()
    async with world.owned(1):
        await world.drained()
    world.database.fall_back(snapshot)
    async with world.owned(2):
        await world.drained()
    check_exactly_once(world)


async def test_e1_a_message_that_is_too_large_is_parked_at_once_and_the_others_go_out_once() -> None:
    world = new_world()
    world.commit(*"ab")
    (large,) = world.commit("a", payload=b"x" * 1_100_000)
    world.commit(*"abab")
    async with world.owned():
        await world.drained()
    assert [row.message.id for row in world.database.parked] == [large.id]
    assert large.id not in world.published()
    world.committed.remove(large)
    check_exactly_once(world)
    assert len(world.seen(MessageParked)) == 1


async def test_b7_a_key_waits_for_its_failed_message_and_others_flow() -> None:
    world = new_world()
    world.server.refuse("bad")
    with world.database.transaction() as transaction:
        bad = transaction.add(world.message("a", "bad"))
    follower = world.message("a", "bad")
    with world.database.transaction() as transaction:
        transaction.add(follower)
    world.commit("b", "c")
    async with world.owned(options=replace(FAST, max_attempts=1000)):
        await world.until(lambda: len(world.seen(MessageFailed)) >= 3)
        assert len(world.published()) == 2
        assert world.published("bad") == []
        world.server.refused_topics.clear()
        await world.drained()
    assert world.published("bad") == [bad.id, follower.id]
    assert {e.message_id for e in world.seen(MessageFailed) if isinstance(e, MessageFailed)} == {bad.id}


async def test_a2_attempts_are_counted_once_per_try_and_a_message_is_parked_after_its_last() -> None:
    world = new_world()
    world.server.refuse("bad")
    (bad,) = world.commit("a", topic="bad")
    async with world.owned(options=replace(FAST, max_attempts=3)):
        await world.drained()
    (row,) = world.database.parked
    assert row.message.id == bad.id
    assert [e.attempts for e in world.seen(MessageFailed) if isinstance(e, MessageFailed)] == [1, 2]
    assert [e.attempts for e in world.seen(MessageParked) if isinstance(e, MessageParked)] == [3]
    assert row.message.attempts == 3, "the row says what the event says"


async def test_on_poison_block_a_key_waits_for_ever_and_is_not_parked() -> None:
    world = new_world()
    world.server.refuse("bad")
    world.commit("a", topic="bad")
    async with world.owned(options=replace(FAST, max_attempts=2, park=False)):
        await world.until(lambda: len(world.seen(MessageFailed)) >= 5)
        world.commit("b")
        await world.until(lambda: len(world.published()) == 1)
    assert not world.database.parked
    assert len(world.database.rows) == 1


async def test_d2_a_batch_of_poison_at_the_head_does_not_stop_the_others() -> None:
    world = new_world()
    world.server.refuse("bad")
    world.commit(*[f"bad-{n}" for n in range(40)], topic="bad")
    world.commit("good")
    async with world.owned(options=replace(FAST, max_attempts=1000, retry_cap_s=5.0, retry_base_s=5.0)):
        await world.until(lambda: len(world.published()) == 1)
    assert len(world.database.rows) == 40


async def test_d6_attempts_are_not_used_up_while_the_broker_is_down() -> None:
    world = new_world()
    world.commit(*"aabb")
    world.server.gate.fail_next(50, Unavailable("broker down"), call="publish")
    async with world.owned(options=replace(FAST, max_attempts=2)):
        await world.drained()
    check_exactly_once(world)
    assert not world.database.parked
    causes = {e.cause for e in world.seen(CircuitOpened) if isinstance(e, CircuitOpened)}
    assert causes == {"broker down"}


async def test_d4_d5_a_database_that_hangs_or_cuts_connections_is_met_again_with_a_new_session() -> None:
    world = new_world()
    async with world.owned():
        for _ in range(5):
            world.commit(*"ab")
            await asyncio.sleep(0.005)
            world.database.cut()
        world.database.gate.pause()
        await asyncio.sleep(0.7)  # longer than the deadline of a call
        world.database.gate.resume()
        world.commit("a")
        await world.drained()
    check_exactly_once(world)


@pytest.mark.parametrize("error", [SchemaMissing("no table"), AccessDenied("no")])
async def test_what_a_person_must_mend_opens_the_circuit_and_does_not_spin(error: SchemaMissing | AccessDenied) -> None:
    world = new_world()
    world.commit("a")
    world.database.gate.fail_next(3, error, call="pending")
    async with world.owned(options=replace(FAST, retry_cap_s=0.05)):
        await world.drained()
    delays = [e.delay_s for e in world.seen(CircuitOpened) if isinstance(e, CircuitOpened)]
    assert delays == [0.05] * 3


async def test_the_end_of_the_lease_stops_the_lane() -> None:
    world = new_world()
    lost = asyncio.Event()
    task = asyncio.create_task(world.owner(lost=lost))
    world.commit("a")
    await world.drained()
    lost.set()
    with pytest.raises(LeaseLost):
        await asyncio.wait_for(task, 2)


async def test_a_drain_finishes_what_is_in_hand() -> None:
    world = new_world()
    world.commit(*"abcdefgh" * 20)
    world.server.gate.latency_s = 0.01
    drain = asyncio.Event()
    task = asyncio.create_task(world.owner(drain=drain))
    await world.until(lambda: len(world.published()) >= 8)
    drain.set()
    await asyncio.wait_for(task, 2)
    waiting = {row.message.id for row in world.database.rows}
    assert waiting, "the drain came before the end"
    assert not waiting & set(world.published()), "what was published is settled"


async def test_what_comes_during_a_publish_goes_out_together_with_the_next_one() -> None:
    """Nothing is read ahead of a page that was not full: the first to come would leave the others behind."""
    world = new_world()
    world.server.gate.latency_s = 0.05
    async with world.owned():
        await world.until(lambda: bool(world.seen(ReceiptsSettled)))
        world.commit("a")
        for key in "bcd":
            await asyncio.sleep(0.01)
            world.commit(key)
        await world.drained()
    assert [event.messages for event in world.events if isinstance(event, Published)] == [1, 3]
    check_exactly_once(world)


async def test_d4_a_broker_that_does_not_answer_is_told_of_long_before_the_call_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(silence, "TOLD_AFTER_S", 0.02)
    monkeypatch.setattr(silence, "_LOOK_EVERY_S", 0.005)
    world = new_world()
    async with world.owned():
        world.commit("a")
        await world.drained()
        assert not world.seen(NoAnswer)
        world.server.gate.pause()
        world.commit("a")
        await world.until(lambda: len(world.seen(NoAnswer)) >= 3, 0.4)
        assert not world.seen(CircuitOpened), "the call has not ended yet"
        world.server.gate.resume()
        await world.drained()
    told = [event for event in world.events if isinstance(event, NoAnswer)]
    assert {event.doing for event in told} == {"publishing to the broker"}
    assert all(later.waited_s > 1.5 * earlier.waited_s for earlier, later in pairwise(told))
    check_exactly_once(world)


async def test_full_pages_are_read_ahead() -> None:
    world = new_world()
    world.commit(*"abcdefgh")
    world.server.gate.latency_s = 0.05
    reads: list[int] = []
    pending = MemorySession.pending

    async def counted(self: MemorySession, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        reads.append(len(world.published()))
        return await pending(self, lane, limit, after)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemorySession, "pending", counted)
        async with world.owned():
            await world.drained()
    assert reads[:2] == [0, 0], "the second page is read while the first is published"


async def test_delayed_messages_are_published_when_their_time_has_come() -> None:
    world = new_world()
    later = replace(world.message("a"), available_at=SYSTEM_CLOCK.now() + timedelta(seconds=1.5))
    with world.database.transaction() as transaction:
        transaction.add(later)
    world.commit("b")
    async with world.owned():
        await world.until(lambda: len(world.published()) == 1)
        await world.until(lambda: len(world.published()) == 2)
    assert world.published()[1] == later.id
    assert SYSTEM_CLOCK.now() >= (later.available_at or SYSTEM_CLOCK.now())


async def test_memory_is_bounded_by_bytes_as_well_as_by_messages() -> None:
    world = new_world()
    world.commit(*[None] * 200, payload=b"x" * 10_000)
    async with world.owned(options=replace(FAST, batch=1000, batch_bytes=50_000)):
        await world.drained()
    sizes = [e.payload_bytes for e in world.seen(Published) if isinstance(e, Published)]
    assert max(sizes) <= 130_000, "the first page is a guess, the next ones know"
    assert sum(sizes) == 2_000_000


async def test_a5_plain_broker_only_rows_in_doubt_repeat_and_say_so() -> None:
    world = new_world(delivery="at-least-once")
    world.commit(*"abcd")
    world.server.break_off(2)
    async with world.owned():
        await world.drained()
    ids = world.published()
    assert set(ids) == {m.id for m in world.committed}
    repeats = [d for n, d in enumerate(world.server.published("t")) if d.id in ids[:n]]
    assert len(repeats) == 2
    assert all(dict(d.headers)["ce_possiblerepeat"] == "true" for d in repeats)


async def test_a5_plain_broker_a_drain_leaves_nothing_in_doubt() -> None:
    """The marks of the next batch are written while one is published: then that batch goes too, and no further one."""
    world = new_world(delivery="at-least-once")
    world.commit(*[None] * 60)
    world.server.gate.latency_s = 0.05
    drain = asyncio.Event()
    task = asyncio.create_task(world.owner(1, replace(FAST, batch=10), drain=drain))
    await world.until(lambda: sum(row.message.in_doubt for row in world.database.rows) == 20)
    drain.set()
    await asyncio.wait_for(task, 5)
    assert not any(row.message.in_doubt for row in world.database.rows)
    assert len(world.published()) == 20
    assert len(world.database.rows) == 40


async def test_plain_broker_a_batch_is_marked_while_the_one_before_it_is_published() -> None:
    world = new_world(delivery="at-least-once")
    world.commit(*[None] * 30)
    world.server.gate.latency_s = 0.05
    marked: list[int] = []
    in_doubt = MemorySession.in_doubt

    async def counted(self: MemorySession, rows: Sequence[Stored], token: int) -> None:
        marked.append(len(world.published()))
        await in_doubt(self, rows, token)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemorySession, "in_doubt", counted)
        async with world.owned(options=replace(FAST, batch=10)):
            await world.drained()
    assert marked == [0, 0, 10]


async def test_a9_plain_broker_nothing_is_sent_that_could_outlive_the_lease() -> None:
    world = new_world(delivery="at-least-once")
    world.commit("a")
    with pytest.raises(LeaseLost):
        await asyncio.wait_for(world.owner(trusted_for_s=lambda: FAST.publish_timeout_s / 2), 2)
    assert world.published() == []


async def test_plain_broker_one_message_of_a_key_in_flight_and_order_kept() -> None:
    """Of a key nothing is sent before what was sent of it is settled: a repeat never comes after a later message."""
    world = new_world(delivery="at-least-once")
    world.commit(*"aaabbb" * 5)
    world.database.gate.latency_s = 0.003
    publish = MemoryHandoff.publish

    async def watched(self: MemoryHandoff, batch: Sequence[Stored]) -> Outcome:
        keys = [m.key for m in batch]
        assert len(set(keys)) == len(keys)
        unsettled = {row.message.key for row in world.database.rows if row.message.id in world.published()}
        assert not unsettled & set(keys)
        return await publish(self, batch)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemoryHandoff, "publish", watched)
        async with world.owned(options=replace(FAST, batch=8)) as task:
            await world.until(lambda: not world.database.rows or task.done())
        task.result()
    for key, ids in per_key(world).items():
        assert ids == [m.id for m in world.committed if m.key == key]


async def test_plain_broker_a_backlog_of_few_keys_is_not_read_again_for_each_message() -> None:
    world = new_world(delivery="at-least-once")
    world.commit(*"ab" * 1000)
    read: list[int] = []
    pending = MemorySession.pending

    async def counted(self: MemorySession, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        rows = await pending(self, lane, limit, after)
        read.append(len(rows))
        return rows

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MemorySession, "pending", counted)
        async with world.owned(options=replace(FAST, batch=100)):
            await world.drained(20)
    assert sum(read) < 2 * 2000
    assert [d.key for d in world.server.published("t")][:2] == ["a", "b"]


async def test_plain_broker_other_keys_do_not_wait_for_the_backlog_of_one() -> None:
    world = new_world(delivery="at-least-once")
    world.commit(*"a" * 300, *"bcd")
    world.server.gate.latency_s = 0.002
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lane_module, "WAVES_S", 0.02)
        async with world.owned(options=replace(FAST, batch=50)):
            await world.drained(20)
    keys = [d.key for d in world.server.published("t")]
    assert max(keys.index(key) for key in "bcd") < 150
    assert world.published().count(world.committed[0].id) == 1
    assert per_key(world)["a"] == [m.id for m in world.committed if m.key == "a"]
