"""Virtual time, and processes that crash or pause in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextvars import Context

import pytest

from fencepost.testing.simulation.loop import Process, Stuck, VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()
    yield made
    for task in made.unfinished():
        task.cancel()
    made.run_until_complete(made.create_task(asyncio.sleep(1), context=Context()))
    made.close()


def run_for(loop: VirtualLoop, seconds: float) -> None:
    loop.run_until_complete(loop.create_task(asyncio.sleep(seconds), context=Context()))


async def diary(lines: list[str]) -> None:
    try:
        for n in range(5):
            lines.append(f"step {n}")
            await asyncio.sleep(1)
    finally:
        lines.append("cleaned up")


def test_time_passes_only_in_sleeps(loop: VirtualLoop) -> None:
    run_for(loop, 3600)
    assert loop.time() == 3600


def test_nothing_to_wait_for_is_an_error(loop: VirtualLoop) -> None:
    with pytest.raises(Stuck):
        loop.run_until_complete(loop.create_future())


def test_a_crash_runs_no_cleaning_up(loop: VirtualLoop) -> None:
    lines: list[str] = []
    process = Process("p", loop)
    process.spawn(diary(lines))
    run_for(loop, 1.5)
    process.crash()
    run_for(loop, 10)
    assert lines == ["step 0", "step 1"]
    process.revive()
    run_for(loop, 10)
    assert lines[-1] == "cleaned up"


def test_a_paused_process_goes_on_where_it_was(loop: VirtualLoop) -> None:
    lines: list[str] = []
    process = Process("p", loop)
    process.spawn(diary(lines))
    run_for(loop, 0.5)
    process.pause()
    run_for(loop, 100)
    assert lines == ["step 0"]
    process.wake()
    run_for(loop, 0.5)
    assert lines == ["step 0", "step 1"]


def test_a_timeout_that_ran_out_during_a_pause_is_noticed_after_it(loop: VirtualLoop) -> None:
    found: list[str] = []

    async def impatient() -> None:
        try:
            async with asyncio.timeout(1):
                await asyncio.sleep(2)
        except TimeoutError:
            found.append(f"too late at {loop.time():.0f}")

    process = Process("p", loop)
    process.spawn(impatient())
    run_for(loop, 0.5)
    process.pause()
    run_for(loop, 30)
    process.wake()
    run_for(loop, 1)
    assert found == ["too late at 30"]


def test_children_belong_to_the_process_of_their_parent(loop: VirtualLoop) -> None:
    lines: list[str] = []

    async def parent() -> None:
        await asyncio.ensure_future(diary(lines))

    process = Process("p", loop)
    process.spawn(parent())
    run_for(loop, 0.5)
    process.crash()
    run_for(loop, 10)
    assert lines == ["step 0"]
    process.revive()


def test_an_abandoned_generator_is_ended(loop: VirtualLoop) -> None:
    """As every event loop does it, so that what it holds is given back."""
    lines: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            lines.append("ended")

    async def abandon() -> None:
        async for _ in numbers():
            break

    loop.run_until_complete(loop.create_task(abandon(), context=Context()))
    run_for(loop, 1)
    assert lines == ["ended"]
