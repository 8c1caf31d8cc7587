"""The search itself, on parties that need no database: every order, each once; locks, errors, and no endless wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import comb

import pytest

from fencepost.flows import Flow
from fencepost.testing.interleave import (
    History,
    Party,
    Report,
    Strayed,
    Stuck,
    Taken,
    interleave,
    run_in_steps,
    step,
    steps,
)
from fencepost.testing.interleave.history import all_orders

PATIENCE_S = 0.02


class World:
    """A number, two locks, and a diary."""

    def __init__(self) -> None:
        self.number = 0
        self.locks = {"a": asyncio.Lock(), "b": asyncio.Lock()}
        self.holder: dict[str, str] = {}
        self.diary: list[str] = []

    async def note(self, text: str) -> str:
        self.diary.append(text)
        return text


@asynccontextmanager
async def fresh() -> AsyncIterator[World]:
    yield World()


async def nothing(_: World, __: History) -> None:
    """Nothing to check."""


def noting(side: str, count: int) -> Party[World]:
    return steps(*((f"{n}", lambda world, n=n: world.note(f"{side}{n}")) for n in range(count)))


def under(*names: str) -> Party[World]:
    """Takes these locks, one after the other, each as a step; lets go in one more step."""

    async def party(world: World) -> None:
        held: list[asyncio.Lock] = []
        try:
            for name in names:
                await step(f"lock {name}", world.locks[name].acquire)
                held.append(world.locks[name])
            await step("work", lambda: world.note(" ".join(names)))
        finally:
            for lock in held:
                lock.release()

    return party


async def run(left: Party[World], right: Party[World], *, expected: tuple[type[Exception], ...] = ()) -> Report:
    return await interleave(
        left, right, fresh=fresh, check=nothing, expected=expected, patience_s=PATIENCE_S, deadline_s=2
    )


@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 3), (1, 1), (2, 3), (4, 4), (5, 3)])
async def test_every_order_is_run_once(left: int, right: int) -> None:
    report = await run(noting("L", left), noting("R", right))
    assert report.orders == comb(left + right, left)
    assert {history.order for history in report.histories} == set(all_orders(left, right))
    assert report.unseen(left, right) == []
    assert (report.waited, report.impossible(left, right)) == (0, 0)


async def test_orders_that_mirror_others_can_be_left_out() -> None:
    report = await interleave(
        under("a"), under("a"), fresh=fresh, check=nothing, alike=True, patience_s=PATIENCE_S, deadline_s=2
    )
    assert [history.order for history in report.histories] == ["LLRR", "LRLR"]
    assert (report.unseen(2, 2), report.impossible(2, 2)) == ([], 1)
    assert Report(report.histories[1:], alike=True).unseen(2, 2) == ["LLRR"]


async def test_the_steps_are_made_in_the_order_that_is_told() -> None:
    async def check(world: World, history: History) -> None:
        assert "".join(text[0] for text in world.diary) == history.order
        assert history.left.result == ["L0", "L1"]
        assert history.done("0", "1", "2") == list(history.order)

    report = await interleave(noting("L", 2), noting("R", 3), fresh=fresh, check=check, patience_s=PATIENCE_S)
    assert str(report.histories[0]) == "LLRRR: L 0, L 1, R 0, R 1, R 2"
    assert report.orders == 10


async def test_a_step_that_waits_for_a_lock_is_left_in_flight() -> None:
    """Of the six orders of two steps each, only the lock's own are left, and the report says which were cut."""
    report = await run(under("a"), under("a"))
    assert {h.order: h.waited for h in report.histories} == {"LLRR": False, "LRLR": True, "RLRL": True, "RRLL": False}
    assert report.unseen(2, 2) == []
    assert (report.waited, report.impossible(2, 2)) == (2, 2)
    told = next(h.told for h in report.histories if h.order == "LRLR")
    assert told == "L lock a, R lock a, (R waits), L work, (R goes on), R work"


async def test_an_order_that_was_left_out_is_seen_to_be_missing() -> None:
    report = await run(noting("L", 2), noting("R", 2))
    assert Report(report.histories[1:]).unseen(2, 2) == [report.histories[0].order]
    blocked = await run(under("a"), under("a"))
    assert Report([blocked.histories[0], *blocked.histories[2:]]).unseen(2, 2) != []


async def test_two_locks_in_opposite_order_end_at_the_deadline() -> None:
    """Nobody resolves this deadlock: the play ends all the same, and both parties let go."""
    worlds: list[World] = []

    @asynccontextmanager
    async def kept() -> AsyncIterator[World]:
        worlds.append(World())
        yield worlds[-1]

    with pytest.raises(Stuck, match=r"within 0\.3 s: .*L lock b, \(L waits\), R lock a, \(R waits\)$"):
        await interleave(
            under("a", "b"), under("b", "a"), fresh=kept, check=nothing, patience_s=PATIENCE_S, deadline_s=0.3
        )
    assert not any(lock.locked() for lock in worlds[-1].locks.values())


async def test_a_deadlock_that_is_broken_ends_one_and_frees_the_other() -> None:
    def impatient(*names: str) -> Party[World]:
        async def party(world: World) -> None:
            async with asyncio.timeout(0.15):
                await under(*names)(world)

        return party

    report = await run(impatient("a", "b"), under("b", "a"), expected=(TimeoutError,))
    broken = [h for h in report.histories if h.errors]
    assert broken
    assert all(isinstance(h.left.error, TimeoutError) and h.right.error is None for h in broken)
    assert len(broken) < report.orders


async def test_a_slow_step_is_not_taken_for_one_that_waits() -> None:
    """Where the world can tell, patience has nothing to do with it."""

    async def slow(_: World) -> None:
        await asyncio.sleep(4 * PATIENCE_S)

    async def waits(_: World, __: Taken) -> bool:
        return False

    report = await interleave(
        steps(("slow", slow)),
        noting("R", 2),
        fresh=fresh,
        check=nothing,
        waits=waits,
        patience_s=PATIENCE_S,
    )
    assert (report.orders, report.waited) == (3, 0)


async def test_a_lost_update_is_found() -> None:
    async def add_one(world: World) -> None:
        async def read() -> int:
            return world.number

        async def write(number: int) -> None:
            world.number = number

        seen = await step("read", read)
        await step("write", lambda: write(seen + 1))

    async def check(world: World, _: History) -> None:
        assert world.number == 2

    with pytest.raises(AssertionError) as caught:
        await interleave(add_one, add_one, fresh=fresh, check=check, patience_s=PATIENCE_S)
    assert caught.value.__notes__ == ["in the order LRLR: L read, R read, L write, R write"]


async def test_an_error_that_was_not_expected_is_raised() -> None:
    async def fails(_: World) -> None:
        raise KeyError("nothing there")

    party = steps(("try", fails))
    with pytest.raises(KeyError) as caught:
        await run(party, noting("R", 1))
    assert caught.value.__notes__ == ["in the order LR: L try, (L failed: KeyError), R 0"]
    report = await run(party, noting("R", 1), expected=(LookupError,))
    assert [type(h.left.error) for h in report.histories] == [KeyError, KeyError]
    assert [[t.side for t in h.steps if t.error] for h in report.histories] == [["L"], ["L"]]


async def test_parties_that_do_not_do_the_same_each_time_are_refused() -> None:
    calls = 0

    async def moody(world: World) -> None:
        nonlocal calls
        calls += 1
        for n in range(3 if calls == 1 else 1):
            await step(f"{n}", lambda: world.note("L"))

    with pytest.raises(Strayed, match="where it had one before"):
        await run(moody, noting("R", 1))
    assert calls == 4  # three tries


async def test_a_search_without_end_is_refused() -> None:
    with pytest.raises(AssertionError, match="more than 10 orders"):
        await interleave(noting("L", 3), noting("R", 3), fresh=fresh, check=nothing, orders_max=10)


async def test_a_flow_is_stepped_statement_by_statement() -> None:
    def flow(name: str) -> Flow[str, str, list[str]]:
        first = yield f"{name} one"
        second = yield f"{name} two"
        return [first, second]

    def party(name: str) -> Party[World]:
        return lambda world: run_in_steps(flow(name), world.note, name=lambda text: text.partition(" ")[2])

    report = await run(party("left"), party("right"))
    assert report.orders == 6
    assert report.histories[0].told == "L one, L two, R one, R two"
    assert report.histories[0].left.result == ["left one", "left two"]


async def test_a_step_within_a_step_is_a_part_of_it_and_one_outside_of_a_party_is_only_a_call() -> None:
    world = World()
    assert await step("alone", lambda: world.note("alone")) == "alone"

    async def inner(world: World) -> str:
        return await step("inner", lambda: world.note("inner"))

    report = await run(steps(("outer", inner)), noting("R", 1))
    assert [h.order for h in report.histories] == ["LR", "RL"]


async def test_a_party_of_two_tasks_is_refused() -> None:
    async def party(world: World) -> None:
        await asyncio.gather(*(step(name, lambda: world.note("L")) for name in ("one", "other")))

    with pytest.raises(RuntimeError, match="a party is one task"):
        await run(party, noting("R", 1))


async def test_the_world_is_ended_after_a_play_that_failed() -> None:
    ended: list[bool] = []

    @asynccontextmanager
    async def counted() -> AsyncIterator[World]:
        try:
            yield World()
        finally:
            ended.append(True)

    async def check(_: World, __: History) -> None:
        raise AssertionError("wrong")

    make: Callable[[str], Party[World]] = lambda side: noting(side, 1)  # noqa: E731
    with pytest.raises(AssertionError, match="wrong"):
        await interleave(make("L"), make("R"), fresh=counted, check=check)
    assert ended == [True]
