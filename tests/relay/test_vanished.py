"""Rows that somebody else deletes while they wait: the relay says which, and goes on (C6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fencepost.databases.memory import MemorySession
from fencepost.errors import Unavailable
from fencepost.events import Event, RelayFailed, RowsVanished, Settled
from fencepost.message import Position
from tests.relay.world import FAST, World, check_exactly_once, new_world


def truncate(world: World) -> list[str]:
    """Take every row away, as TRUNCATE does; the ids of what waited."""
    rows = world.database.rows
    world.database._state.remove({int(row.message.position) for row in rows})
    return [row.message.id for row in rows]


def lost(world: World) -> list[str]:
    """The ids that were told to be lost."""
    return [id_ for event in world.seen(RowsVanished) if isinstance(event, RowsVanished) for id_ in event.message_ids]


async def test_c6_a_table_is_truncated_while_the_broker_is_down() -> None:
    world = new_world()
    world.server.gate.fail_next(20, Unavailable("the broker is down"), call="publish")
    world.commit(*"abcdabcdabcd")
    async with world.owned():
        await world.until(lambda: len(world.server.gate._troubles) < 15)
        gone = truncate(world)
        world.committed.clear()
        world.commit("a", "b")
        await world.until(lambda: bool(lost(world)))
        await world.drained()
    assert set(gone) >= set(lost(world)), "only what waited"
    assert len(lost(world)) >= FAST.batch, "at least what was in hand"
    assert not set(lost(world)) & set(world.published())
    (told,) = [event for event in world.seen(RowsVanished) if isinstance(event, RowsVanished)]
    assert (told.first, told.rows) == (1, len(told.message_ids))
    check_exactly_once(world)
    assert not world.seen(RelayFailed)


async def test_c6_rows_behind_a_refused_message_are_deleted() -> None:
    world = new_world()
    world.server.refuse("bad")
    world.commit("a", "a", topic="bad")
    world.committed.clear()
    patient = replace(FAST, max_attempts=1000, retry_base_s=0.05, retry_cap_s=0.05)
    async with world.owned(options=patient):
        world.commit("b")
        await world.until(lambda: len(world.published()) == 1 and len(world.database.rows) == 2)
        gone = truncate(world)
        await world.until(lambda: bool(lost(world)))
        world.commit("b", "c")
        await world.drained()
    assert set(lost(world)) == set(gone)
    assert len(gone) == 2
    check_exactly_once(world)


async def test_c6_what_is_published_is_not_lost_when_its_row_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settle finds less than it names: that is told too, as what it is."""
    world = new_world()
    settle, calls = MemorySession.settle, []

    async def settled_late(self: MemorySession, rows: Sequence[tuple[Position, str]]) -> int:
        calls.append(rows)
        if len(calls) == 1:
            truncate(world)
        return await settle(self, rows)

    monkeypatch.setattr(MemorySession, "settle", settled_late)
    world.commit(*"abcd")
    async with world.owned():
        await world.until(lambda: len(world.seen(Settled)) >= 1)
        world.commit("e")
        await world.until(lambda: len(world.seen(Settled)) >= 2)
    assert lost(world) == []
    assert [(e.rows, e.expected) for e in world.seen(Settled) if isinstance(e, Settled)] == [(0, 4), (1, 1)]
    check_exactly_once(world)


@pytest.mark.parametrize("restart", [False, True])
async def test_c6_positions_begin_again_after_a_truncation(restart: bool) -> None:
    """TRUNCATE ... RESTART IDENTITY, while the relay runs or before it starts: new messages stand at old positions."""
    world = new_world()
    world.commit(*"abcd" * 5)
    if restart:
        async with world.owned(1):
            await world.drained()
    async with world.owned(2):
        await world.drained()
        world.database._state.next_position = 1
        for _ in range(3):
            world.commit(*"abc")
            await world.drained()
    check_exactly_once(world)


async def test_nothing_vanishes_in_a_relay_that_is_told_to_park() -> None:
    """What it parks itself is no loss, also where a read runs at that moment."""
    world = new_world()
    world.server.refuse("bad")
    world.database.gate.latency_s = 0.002
    events: list[Event] = world.events
    async with world.owned(options=replace(FAST, max_attempts=2)):
        for _ in range(10):
            world.commit("a", "b", topic="bad")
            world.commit("a", "b")
            await world.drained()
    assert len(world.database.parked) == 20
    assert [event for event in events if isinstance(event, RowsVanished)] == []
