"""The demonstration itself: write, kill, drain, read back, compare."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any

from fencepost import app
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.config import mask_url
from fencepost.demo.arrivals import Arrivals
from fencepost.demo.chance import Chance, new_seed
from fencepost.demo.chaos import Chaos, Leader, plan
from fencepost.demo.configuration import TTL_S
from fencepost.demo.fleet import Fleet
from fencepost.demo.place import Place, place
from fencepost.demo.records import DemoOptions, DemoResult, Phase, Snapshot
from fencepost.errors import RetryError, Unavailable
from fencepost.history import compare

RELAYS = 2
WRITERS = 2
_TICK_S = 0.1
_LOOK_S = 0.5
_END_S = 3.0
_START_S = 30.0
_DRAIN_S = 60.0

OnSnapshot = Callable[[Snapshot], None]


async def run(options: DemoOptions, on_snapshot: OnSnapshot, clock: Clock = SYSTEM_CLOCK) -> DemoResult:
    """Run a demonstration; ``on_snapshot`` is called about ten times a second.

    Cancelling it cleans up like an ordinary end. Raises FixError or RetryError where a server is not as it should be.
    """
    async with place(options, clock) as at, AsyncExitStack() as stack:
        show = _Show(options, at, on_snapshot, clock)
        return await show.run(stack)


class _Show:
    def __init__(self, options: DemoOptions, at: Place, on_snapshot: OnSnapshot, clock: Clock) -> None:
        self._options, self._at, self._on_snapshot, self._clock = options, at, on_snapshot, clock
        self._seed = new_seed(clock) if options.seed is None else options.seed
        self._started = clock.monotonic()
        self._writing_since: float | None = None
        self._phase: Phase = "starting"
        self._tally = at.orders.tally
        self._arrivals = Arrivals(self._tally.begun_at, clock)
        self._fleet = Fleet(at.config_file, at.folder, at.env, clock)
        self._chaos = Chaos(self._fleet, self._leader, self._arrivals.first_after, TTL_S, clock)
        self._monitor = app.Monitor(at.config)
        self._status: app.StatusReport | None = None
        self._leads: Leader | None = None
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, stack: AsyncExitStack) -> DemoResult:
        stack.push_async_callback(self._fleet.stop)
        for _ in range(RELAYS):
            await self._fleet.start()
        await stack.enter_async_context(self._monitor)
        await stack.enter_async_context(self._at.stage.following(self._arrivals))
        stack.push_async_callback(self._end_tasks)
        self._begin(self._watch())
        await self._until(lambda: self._leads is not None, _START_S, "no relay has become the leader")
        await self._write()
        self._phase = "draining"
        await self._until(self._drained, _DRAIN_S, "the backlog does not drain")
        self._phase = "reading back"
        self._tell()
        return await self._result()

    async def _write(self) -> None:
        """Writers and trouble, until the time is up and all the trouble was made."""
        self._phase, self._writing_since = "writing", self._clock.monotonic()
        stop = asyncio.Event()
        rate = self._options.rate_per_s / WRITERS
        writers = [self._begin(self._at.orders.write(rate, self._chance(f"writer {n}"), stop)) for n in range(WRITERS)]
        kinds = plan(self._options.kills, pause=self._options.pause)
        trouble = self._begin(self._chaos.run(kinds, self._options.seconds, self._chance("chaos")))
        end = self._writing_since + self._options.seconds
        while self._clock.monotonic() < end or not trouble.done():
            await self._tick()
        stop.set()
        await asyncio.gather(*writers)

    def _chance(self, name: str) -> Chance:
        return Chance(self._seed, name)

    async def _result(self) -> DemoResult:
        delivery = self._status.delivery if self._status else None
        streams = await self._at.stage.read_back()
        config, options = self._at.config, self._options
        return DemoResult(
            report=compare(await self._at.orders.committed(), streams),
            rolled_back=self._tally.rolled_back,
            failovers=tuple(self._chaos.failovers),
            kills_wanted=options.kills,
            pauses_wanted=int(options.pause),
            delivery=delivery,
            latency_p50_ms=self._arrivals.latency_p50_ms(),
            elapsed_s=self._clock.monotonic() - self._started,
            database=mask_url(config.database.url),
            broker=mask_url(config.broker.url, show_user=False),
            seed=self._seed,
            folder=str(self._at.folder) if options.keep else None,
        )

    # -- who leads, what waits -----------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Keep an eye on backlog and leader. A busy server is asked again; if it is serious, the writers say so."""
        looked = -_LOOK_S
        while not self._ending.is_set():
            with suppress(RetryError):
                if self._clock.monotonic() - looked >= _LOOK_S:
                    self._status = await self._monitor.look()
                    looked = self._clock.monotonic()
                self._leads = await self._leader()
            await self._clock.sleep(_TICK_S)

    async def _leader(self) -> Leader | None:
        """Who leads at this moment."""
        holder = await self._monitor.holder()
        if holder is None or holder.remaining_s <= 0:
            return None
        pid = holder.owner.split(":")[1]
        return (int(pid), holder.token) if pid.isdigit() else None

    def _drained(self) -> bool:
        waits = self._status.pending if self._status else 1
        return waits == 0 and self._arrivals.count >= self._tally.committed

    # -- time goes by --------------------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    async def _until(self, happened: Callable[[], bool], seconds: float, otherwise: str) -> None:
        give_up = self._clock.monotonic() + seconds
        while not happened():
            if self._clock.monotonic() > give_up:
                raise Unavailable(f"{otherwise} within {seconds:g} s", remedy="--keep leaves the relays' logs")
            await self._tick()

    async def _tick(self) -> None:
        """Show how it goes; raise what went wrong anywhere."""
        for task in self._tasks:
            if task.done():
                task.result()
        self._fleet.check()
        self._tell()
        await self._clock.sleep(_TICK_S)

    async def _end_tasks(self) -> None:
        self._ending.set()
        await asyncio.wait(self._tasks, timeout=_END_S)  # a look that is under way ends cleanly
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _tell(self) -> None:
        leads, since = self._leads, self._writing_since
        self._on_snapshot(
            Snapshot(
                phase=self._phase,
                elapsed_s=0.0 if since is None else self._clock.monotonic() - since,
                seconds=self._options.seconds,
                committed=self._tally.committed,
                rolled_back=self._tally.rolled_back,
                published=self._arrivals.count,
                backlog=self._status.pending if self._status else 0,
                leader_pid=leads[0] if leads else None,
                term=leads[1] if leads else None,
                delivery=self._status.delivery if self._status else None,
                failovers=tuple(self._chaos.failovers),
                note=self._chaos.note,
            )
        )
