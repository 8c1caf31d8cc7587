"""kill -9 and SIGSTOP of the real relay at each point where it hurts, on real servers; the broker is read back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from fencepost import app
from fencepost.clock import SYSTEM_CLOCK
from fencepost.demo.chance import Chance
from fencepost.demo.fleet import Fleet
from fencepost.demo.place import Place, place
from fencepost.demo.records import DemoOptions
from fencepost.history import Report, compare
from tests.torture.kill_point import POINTS

TIMEOUT_S = 60.0

pytestmark = pytest.mark.torture


@pytest.fixture
async def stages(
    fresh_database: str, kafka_url: str, nats_url: str, tmp_path: Path
) -> AsyncIterator[tuple[Place, Place]]:
    """PostgreSQL to Kafka and SQLite to NATS, each with an orders table and a topic of the test's own."""
    sqlite = f"sqlite:///{tmp_path}/orders.db"
    async with (
        place(DemoOptions(database=fresh_database, broker=kafka_url), SYSTEM_CLOCK) as one,
        place(DemoOptions(database=sqlite, broker=nats_url), SYSTEM_CLOCK) as other,
    ):
        yield one, other


@asynccontextmanager
async def writing(stage: Place) -> AsyncIterator[None]:
    """Two writers that commit and roll back all the while."""
    stop = asyncio.Event()
    writers = [asyncio.create_task(stage.orders.write(150, Chance(1, name), stop)) for name in ("a", "b")]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*writers)


@asynccontextmanager
async def kill_point(stage: Place, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program of the traps, on its way. Neither it nor what it started outlives the block."""
    how, *traps = words
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.torture.kill_point", how, str(stage.config_file), *traps,
        env={**os.environ, **stage.env}, cwd=Path(__file__).parents[2], stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def struck(process: asyncio.subprocess.Process) -> list[str]:
    """The points of the traps that were sprung, until there are no more."""
    assert process.stdout is not None
    return [line.decode().partition(" ")[2].strip() async for line in process.stdout if line.startswith(b"struck")]


async def readable(stage: Place) -> int:
    """How many messages a reader sees."""
    return sum(map(len, await stage.stage.read_back()))


async def drained(stage: Place) -> Report:
    """Wait until nothing is pending, then compare the table of orders with the whole topic."""
    source = app.source(stage.config)
    async with asyncio.timeout(TIMEOUT_S):
        while (await source.backlog()).pending:
            await asyncio.sleep(0.1)
    return compare(await stage.orders.committed(), await stage.stage.read_back())


@asynccontextmanager
async def relays(stage: Place, count: int) -> AsyncIterator[Fleet]:
    """Ordinary relays beside the trapped ones."""
    fleet = Fleet(stage.config_file, stage.folder, stage.env, SYSTEM_CLOCK)
    for _ in range(count):
        await fleet.start()
    try:
        yield fleet
    finally:
        await fleet.stop()


@asynccontextmanager
async def standing_still(stage: Place, point: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A relay that led and was paused at a point. It is told to stop at the end, awake."""
    async with kill_point(stage, "pause", point, "2") as paused:
        assert paused.stdout is not None
        async with asyncio.timeout(TIMEOUT_S):
            while not (line := await paused.stdout.readline()).startswith(b"struck"):
                assert line, f"the relay ended before its trap {point!r} was sprung"
        yield paused
        paused.send_signal(signal.SIGCONT)
        paused.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(paused.wait(), TIMEOUT_S) == 0


async def killed_at_every_point(stage: Place) -> None:
    """One relay after the other dies at a point; the last one finishes the work."""
    traps = [(point, nth) for nth in (1, 3) for point in POINTS]
    words = [word for point, nth in traps for word in (point, str(nth))]
    async with writing(stage), kill_point(stage, "kill", *words) as process, asyncio.timeout(TIMEOUT_S):
        assert await struck(process) == [point for point, _ in traps]
        assert await process.wait() == 0
    async with relays(stage, 1):
        report = await drained(stage)
    assert report.committed > 100
    assert report.clean, f"{stage.config.broker.url}: {report}"


async def paused_for_three_leases(stage: Place, point: str) -> None:
    """The leader stands still in mid-batch, a standby takes over and publishes, the leader wakes: nothing repeats."""
    async with AsyncExitStack() as stack:
        async with writing(stage), standing_still(stage, point) as paused, asyncio.timeout(TIMEOUT_S):
            await stack.enter_async_context(relays(stage, 1))
            before = await readable(stage)
            await asyncio.sleep(3 * stage.config.lease.ttl_s)
            while await readable(stage) < before + 100:  # the standby publishes, and readers are not blocked
                await asyncio.sleep(0.2)
            paused.send_signal(signal.SIGCONT)
            await asyncio.sleep(1.0)
        report = await drained(stage)
    assert report.clean, f"{stage.config.broker.url}: {report}"


async def test_a5_a8_b5_c1_killed_at_every_point(stages: tuple[Place, Place]) -> None:
    """On both routes at once: each has its own relays and writers."""
    async with asyncio.TaskGroup() as both:
        for stage in stages:
            both.create_task(killed_at_every_point(stage))


@pytest.mark.parametrize(
    "points",
    [
        ("after produce before commit", "after commit before settle"),
        pytest.param(("after commit before settle", "after produce before commit"), marks=pytest.mark.long),
        pytest.param(("after fetch", "during settle"), marks=pytest.mark.long),
        pytest.param(("during settle", "after fetch"), marks=pytest.mark.long),
    ],
    ids=" and ".join,
)
async def test_a10_a11_paused_at_every_point_for_three_leases(
    stages: tuple[Place, Place], points: tuple[str, str]
) -> None:
    """On both routes at once, each at its point."""
    async with asyncio.TaskGroup() as both:
        for stage, point in zip(stages, points, strict=True):
            both.create_task(paused_for_three_leases(stage, point))
