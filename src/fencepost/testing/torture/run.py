"""The torture itself: write, make trouble, let the relays drain, read everything back, judge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fencepost import app, plugins
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.config import mask_url
from fencepost.demo.chance import Chance, new_seed
from fencepost.demo.databases import database
from fencepost.demo.fleet import Fleet
from fencepost.demo.place import Place, place
from fencepost.demo.records import DemoOptions
from fencepost.errors import FixError, RetryError, Unavailable
from fencepost.history import Entry, compare
from fencepost.testing.torture import evidence
from fencepost.testing.torture.cluster import Cluster
from fencepost.testing.torture.faults import Faults
from fencepost.testing.torture.network import Line, Route, route_to_broker, route_to_database
from fencepost.testing.torture.nodes import own_cluster
from fencepost.testing.torture.own_stage import OwnStage
from fencepost.testing.torture.records import Server, Snapshot, TortureOptions, TortureResult
from fencepost.testing.torture.relay_logs import RelayLogs
from fencepost.testing.torture.relays import Relays
from fencepost.testing.torture.schedule import draw
from fencepost.testing.torture.servers import OwnNats, restartable
from fencepost.testing.torture.standby import Pair, pair
from fencepost.testing.torture.targets import Targets, impossible, possible
from fencepost.testing.torture.versions import machine, versions
from fencepost.testing.torture.writing import Writers

# So many that those who wait for a late one do not matter.
_WRITERS = {
    "dynamodb": 8,
    "mariadb": 8,
    "mongodb": 4,
    "mongodb-embedded": 4,
    "mysql": 8,
    "postgresql": 12,
    "redis": 8,
    "sqlite": 4,
}
_TIMEOUT_S = 5.0
_RETRY_CAP_S = 2.0
_LATE_MAX_S = {
    "dynamodb": 0.5,
    "mariadb": 2.0,
    "mongodb": 1.0,
    "mongodb-embedded": 0.5,
    "mysql": 2.0,
    "postgresql": 3.0,
    "sqlite": 0.3,
    "redis": 1.0,
}  # SQLite has one writer at a time
_TICK_S = 0.1
_LOOK_S = 0.5
_START_S = 60.0
_DRAIN_S = 120.0
_TRIES = 5
_END_S = 3.0

T = TypeVar("T")
OnSnapshot = Callable[[Snapshot], None]


async def run(options: TortureOptions, on_snapshot: OnSnapshot, clock: Clock = SYSTEM_CLOCK) -> TortureResult:
    """Run a torture; ``on_snapshot`` is called about ten times a second.

    Cancelling it cleans up like an ordinary end. Raises FixError or RetryError where a server is not as it should be
    at the beginning.
    """
    async with AsyncExitStack() as outer:
        databases = await outer.enter_async_context(pair(clock)) if options.standby else None
        cluster = await outer.enter_async_context(own_cluster(options.broker, clock)) if options.cluster else None
        at = await outer.enter_async_context(place(demo_options(options, databases, cluster, clock), clock, "torture"))
        own = OwnNats(at.server, clock) if at.server is not None else None
        targets = Targets(
            restart=restartable(own, options.restart_database, options.restart_broker),
            pair=databases,
            cluster=cluster,
            stutter=cluster or own,
        )
        async with AsyncExitStack() as stack:
            return await _Torture(options, at, targets, on_snapshot, clock).run(stack)


def demo_options(
    options: TortureOptions, databases: Pair | None, cluster: Cluster | None, clock: Clock = SYSTEM_CLOCK
) -> DemoOptions:
    """Where the run takes place: on the servers that were named, or on those of its own that were started."""
    return DemoOptions(
        database=databases.url if databases is not None else options.database,
        broker=cluster.url if cluster is not None else options.broker,
        broker_settings=cluster.settings if cluster is not None else {},
        config=options.config,
        keep=options.keep,
        stage=None if options.reader is None else partial(OwnStage, options.reader, clock),
    )


class _Torture:
    def __init__(
        self, options: TortureOptions, at: Place, targets: Targets, on_snapshot: OnSnapshot, clock: Clock
    ) -> None:
        self._targets = targets
        self._options, self._at, self._on_snapshot, self._clock = options, at, on_snapshot, clock
        self._seed = new_seed(clock) if options.seed is None else options.seed
        self._began, self._started = clock.now(), clock.monotonic()
        self._since: float | None = None
        self._phase = "starting"
        self._fleet = Fleet(at.config_file, at.folder, at.env, clock)
        self._logs = RelayLogs(self._fleet.logs)
        self._monitor = app.Monitor(at.config)
        self._status: app.StatusReport | None = None
        self._direct = database(at.config.database.url)
        self._fallen: list[str] = []
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, stack: AsyncExitStack) -> TortureResult:
        stack.push_async_callback(self._direct.close)
        await stack.enter_async_context(self._monitor)
        routes = await self._routes()
        can = possible(routes, self._targets, self._options, ends_sessions=self._direct.ends_sessions)
        self._schedule = draw(self._seed, self._options.seconds, can, self._options.every_s, self._options.ttl_s)
        self._relays = Relays(self._fleet, routes, self._env(), self._clock)
        stack.push_async_callback(self._relays.close)
        line = None if routes["database"].why_not else await routes["database"].lay(stack, self._clock)
        self._writers = self._new_writers(line, stack)
        self._faults = Faults(self._relays, self._leader, self._logs, line, self._targets, self._direct, self._clock)
        stack.push_async_callback(self._end_tasks)
        for _ in range(self._options.relays):
            await self._relays.start()
        self._begin(self._watch())
        await self._until(lambda: bool(self._logs.take_overs) and self._fleet.all_started(), _START_S)
        await self._torture()
        drained_s = await self._drain()
        return await self._result(routes, drained_s)

    def _new_writers(self, line: Line | None, stack: AsyncExitStack) -> Writers:
        url = self._at.config.database.url
        store = database(line.url if line is not None else url)
        stack.push_async_callback(store.close)
        return Writers(self._at.orders, store, _LATE_MAX_S[plugins.name_of("database", url)], self._clock)

    async def _routes(self) -> Mapping[Server, Route]:
        config = self._at.config
        return {"database": await route_to_database(config), "broker": await route_to_broker(config)}

    def _env(self) -> dict[str, str]:
        """Answers are waited for less long than usual, so that some connections are given up and others come back; and
        pauses after failures are shorter, so that relays are there when the next fault comes.
        """
        return {
            "FENCEPOST_DATABASE__TIMEOUT_S": str(_TIMEOUT_S),
            "FENCEPOST_BROKER__TIMEOUT_S": str(_TIMEOUT_S),
            "FENCEPOST_RELAY__RETRY_CAP_S": str(_RETRY_CAP_S),
            "FENCEPOST_LEASE__TTL_S": str(self._options.ttl_s),
        }

    # -- write and make trouble ----------------------------------------------------------------------------------------

    async def _torture(self) -> None:
        """Writers and trouble, until the time is up and all the trouble is over."""
        self._phase, self._since = "torture", self._clock.monotonic()
        stop = asyncio.Event()
        count = _WRITERS[plugins.name_of("database", self._at.config.database.url)]
        rate = self._options.rate_per_s / count
        chances = [Chance(self._seed, f"writer {n}") for n in range(count)]
        writers = [self._begin(self._writers.write(rate, chance, stop)) for chance in chances]
        trouble = self._begin(self._faults.run(self._schedule))
        end = self._since + self._options.seconds
        while self._clock.monotonic() < end or not trouble.done():
            await self._tick()
        stop.set()
        while not all(writer.done() for writer in writers):
            await self._tick()

    async def _drain(self) -> float | None:
        """Wait until nothing is pending, with all relays back; how long that took, None where it took too long."""
        self._phase, began = "draining", self._clock.monotonic()
        self._forget_status()
        while self._clock.monotonic() < began + _DRAIN_S:
            if self._status is not None and self._status.pending == self._status.delayed == 0:
                return self._clock.monotonic() - began
            await self._tick()
        return None

    # -- what came out -------------------------------------------------------------------------------------------------

    async def _result(self, routes: Mapping[Server, Route], drained_s: float | None) -> TortureResult:
        self._phase = "reading back"
        self._tell()
        status = await self._patiently(self._monitor.look)
        await self._fleet.stop()  # whatever a relay still did, it did before the topic is read
        self._logs.look()
        committed = await self._patiently(self._at.orders.committed)
        streams = await self._patiently(self._at.stage.read_back)
        used = await self._patiently(lambda: versions(self._at.config, self._direct))
        surviving = self._surviving(committed, streams)
        config, options = self._at.config, self._options
        result = TortureResult(
            report=compare(committed, surviving),
            forgotten=sum(map(len, streams)) - sum(map(len, surviving)),
            options=options,
            seed=self._seed,
            schedule=self._schedule,
            struck=tuple(self._faults.struck),
            failovers=tuple(self._faults.failovers),
            impossible=tuple(impossible(routes, self._targets, options, ends_sessions=self._direct.ends_sessions)),
            told=dict(self._logs.told),
            other_lines=tuple(self._logs.other_lines),
            writers=dict(self._writers.done),
            backlog=status.pending + status.delayed,
            parked=status.parked,
            drained_s=drained_s,
            trouble=(*self._fallen, *self._faults.orphaned, *self._logs.grave),
            delivery=status.delivery,
            elapsed_s=self._clock.monotonic() - self._started,
            database=mask_url(config.database.url),
            broker=mask_url(config.broker.url, show_user=False),
            versions=used,
            machine=machine(),
            began=self._began.isoformat(timespec="seconds"),
        )
        return result if result.ok else evidence.kept(result, self._all_logs(), committed, streams)

    def _all_logs(self) -> list[Path]:
        cluster = self._targets.cluster
        return [*self._at.folder.glob("*.log"), *(cluster.logs if cluster is not None else [])]

    def _surviving(self, committed: Sequence[Entry], streams: Sequence[Sequence[Entry]]) -> Sequence[Sequence[Entry]]:
        """What was read, without what the database forgot: a message that was published before a fall-back and whose
        order is gone belongs to no history that survived, and its version was given to another one.
        """
        if not any(struck.fault.kind == "fall-back" for struck in self._faults.struck):
            return streams
        forgotten = self._writers.tried - {entry.id for entry in committed}
        return [[entry for entry in stream if entry.id not in forgotten] for stream in streams]

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Connections that were open while a server was restarted fail once."""
        for _ in range(_TRIES - 1):
            with suppress(RetryError):
                return await ask()
            await self._clock.sleep(1.0)
        return await ask()

    # -- who leads, what waits -----------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Keep an eye on logs and backlog. A server that is away is asked again."""
        looked = -_LOOK_S
        while not self._ending.is_set():
            self._logs.look()
            self._fallen += self._fleet.fallen()
            if self._clock.monotonic() - looked >= _LOOK_S:
                looked = self._clock.monotonic()
                self._status = await self._look()
            await self._clock.sleep(_TICK_S / 2)

    async def _look(self) -> app.StatusReport | None:
        """None where the database does not answer. What a person would have to change is an error of this run: nobody
        has changed anything.
        """
        try:
            return await self._monitor.look()
        except RetryError:
            return None
        except FixError as error:
            self._fallen.append(f"the database was taken for one that needs a person: {error.what}")
            return None

    def _forget_status(self) -> None:
        self._status = None

    async def _leader(self) -> int | None:
        """The pid of who has the lease at this moment."""
        with suppress(RetryError):
            holder = await self._monitor.holder()
            if holder is not None and holder.remaining_s > 0:
                pid = holder.owner.split(":")[1]
                return int(pid) if pid.isdigit() else None
        return None

    # -- time goes by --------------------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    async def _until(self, happened: Callable[[], bool], seconds: float) -> None:
        give_up = self._clock.monotonic() + seconds
        while not happened():
            if self._clock.monotonic() > give_up or self._fallen:
                said = self._fallen[0] if self._fallen else f"no relay has taken over within {seconds:g} s"
                raise Unavailable(said, remedy="--keep leaves the relays' logs")
            await self._tick()

    async def _tick(self) -> None:
        """Show how it goes; raise what went wrong anywhere."""
        for task in self._tasks:
            if task.done():
                task.result()
        self._tell()
        await self._clock.sleep(_TICK_S)

    async def _end_tasks(self) -> None:
        self._ending.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_S)  # a look that is under way ends cleanly
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _tell(self) -> None:
        status, since, done = self._status, self._since, self._writers.done
        self._on_snapshot(
            Snapshot(
                phase=self._phase,
                elapsed_s=0.0 if since is None else self._clock.monotonic() - since,
                seconds=self._options.seconds,
                committed=done["orders"],
                failed=done["failed"],
                rolled_back=done["rolled back"],
                backlog=None if status is None else status.pending,
                leader=None if status is None or status.leader is None else status.leader,
                term=None if status is None else status.term,
                planned=len(self._schedule),
                struck=tuple(self._faults.struck),
                failovers=tuple(self._faults.failovers),
            )
        )


__all__ = ["run"]
