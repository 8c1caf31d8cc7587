"""Making the faults of a schedule, and measuring how long it takes until another relay has taken over."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime

from fencepost.clock import Clock
from fencepost.demo.databases import Database
from fencepost.errors import FencepostError
from fencepost.testing.torture.network import Line
from fencepost.testing.torture.proxy import Trouble
from fencepost.testing.torture.records import NETWORK_KINDS, Failover, Fault, Struck
from fencepost.testing.torture.relay_logs import RelayLogs
from fencepost.testing.torture.relays import Relays
from fencepost.testing.torture.targets import Targets

_LOOK_S = 0.05
_RESTART_S = 0.5
_LEADER_S = 15.0
SUCCESSOR_S = 60.0
"""A killed leader that has no successor after so long is an error."""
_AFTER_PAUSE_S = 1.0
_LATE_S = 0.15
UNDISTURBED_S = 2.0
"""For so long before a fail-over that is measured nothing else may have been under way; the schedule leaves more."""

Leader = Callable[[], Awaitable[int | None]]
"""Asks for the pid of who has the lease."""


class Faults:
    """``struck`` and ``failovers`` grow while it runs; ``orphaned`` are faults after which nobody took over."""

    def __init__(
        self,
        relays: Relays,
        leader: Leader,
        logs: RelayLogs,
        writers: Line | None,
        targets: Targets,
        database: Database,
        clock: Clock,
    ) -> None:
        self._relays, self._leader, self._logs, self._writers = relays, leader, logs, writers
        self._targets, self._database, self._clock = targets, database, clock
        self._started = clock.monotonic()
        self.struck: list[Struck] = []
        self.failovers: list[Failover] = []
        self.orphaned: list[str] = []

    async def run(self, schedule: Sequence[Fault]) -> None:
        """Make them, each at its time; return when all are over."""
        self._started = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in schedule:
                await self._clock.sleep(fault.at_s - self._elapsed_s())
                group.create_task(self._make(fault))

    def _elapsed_s(self) -> float:
        return self._clock.monotonic() - self._started

    async def _make(self, fault: Fault) -> None:
        struck = Struck(fault=fault, began_s=self._elapsed_s())
        self.struck.append(struck)
        try:
            await self._strike(struck)
            struck.outcome = "done"
        except (FencepostError, OSError) as error:
            struck.outcome = f"not made: {error}"
        finally:
            struck.ended_s = struck.ended_s or self._elapsed_s()

    async def _strike(self, struck: Struck) -> None:
        fault = struck.fault
        if fault.kind in ("restart", "node", "stutter", "fall-back"):
            await self._strike_server(struck)
            return
        if fault.whom in ("leader", "standby"):
            struck.pid = await self._victim(fault)
            struck.began_s = self._elapsed_s()
        if fault.kind in NETWORK_KINDS:
            await self._trouble(fault, self._lines(struck))
        elif fault.kind == "terminate":
            await self._terminate(self._lines(struck))
        elif fault.kind == "pause":
            await self._pause(struck)
        elif fault.kind == "late":
            await self._late(struck)
        else:
            await self._end(struck)

    async def _strike_server(self, struck: Struck) -> None:
        fault, targets = struck.fault, self._targets
        if fault.kind == "restart":
            assert fault.server is not None, "a restart names its server"
            await targets.restart[fault.server].restart(by_force=fault.by_force, down_s=fault.seconds)
        elif fault.kind == "fall-back":
            assert targets.pair is not None, "there is a standby where the schedule says so"
            await targets.pair.fall_back(fault.seconds)
        elif fault.kind == "stutter":
            assert targets.stutter is not None, "the broker is the command's own where the schedule says so"
            await targets.stutter.stutter(fault.node or 0, seconds=fault.seconds, stopped_s=fault.delay_s)
        else:
            assert targets.cluster is not None, "there is a cluster where the schedule says so"
            async with targets.cluster.turn():
                struck.began_s = self._elapsed_s()
                await targets.cluster.restart(fault.node or 0, by_force=fault.by_force, down_s=fault.seconds)

    # -- processes -----------------------------------------------------------------------------------------------------

    async def _victim(self, fault: Fault) -> int:
        """The leader, once there is one that is ours, or a standby."""
        give_up = self._clock.monotonic() + _LEADER_S
        while self._clock.monotonic() < give_up:
            leader = await self._leader()
            if fault.whom == "leader" and leader is not None and self._relays.fleet.runs(leader):
                return leader
            standbys = self._relays.standbys(leader)
            if fault.whom == "standby" and standbys:
                return standbys[fault.number % len(standbys)]
            await self._clock.sleep(_LOOK_S)
        raise FencepostError(f"there was no {fault.whom} for {_LEADER_S:g} s")

    async def _end(self, struck: Struck) -> None:
        pid, fleet = struck.pid or 0, self._relays.fleet
        watch = self._watch(struck, SUCCESSOR_S)
        await (fleet.kill(pid) if struck.fault.kind == "kill" else fleet.end(pid))
        await self._clock.sleep(_RESTART_S)  # as a supervisor does
        await self._relays.start()
        struck.ended_s = self._elapsed_s()
        if await watch is None and struck.fault.whom == "leader":
            self.orphaned.append(f"nobody took over within {SUCCESSOR_S:g} s after {struck.fault}")

    async def _pause(self, struck: Struck) -> None:
        pid, fleet = struck.pid or 0, self._relays.fleet
        watch = self._watch(struck, struck.fault.seconds + _AFTER_PAUSE_S)
        fleet.pause(pid)
        try:
            await self._clock.sleep(struck.fault.seconds)
        finally:
            with suppress(KeyError):  # it was killed meanwhile
                fleet.wake(pid)
            struck.ended_s = self._elapsed_s()
        await watch

    async def _late(self, struck: Struck) -> None:
        """A pause, during which what it was sending is held back, and arrives before it wakes up."""
        hold = dataclasses.replace(struck.fault, kind="hold", way="to server")
        held = asyncio.create_task(self._trouble(hold, self._lines(struck)))
        try:
            await self._clock.sleep(_LATE_S)  # in which it sends something
            if self._relays.fleet.runs(struck.pid or 0):
                await self._pause(struck)
        finally:
            await held

    def _watch(self, struck: Struck, patience_s: float) -> asyncio.Task[Failover | None]:
        """Look for the successor from now on."""
        fleet = self._relays.fleet
        ready = any(fleet.has_started(pid) for pid in self._relays.standbys(struck.pid))
        return asyncio.create_task(self._successor(struck, self._clock.now(), ready, patience_s))

    async def _successor(self, struck: Struck, gone: datetime, ready: bool, patience_s: float) -> Failover | None:
        pid, began_s = struck.pid or 0, self._elapsed_s()
        waits_since_s = began_s
        if struck.fault.whom != "leader":
            return None
        while (found := self._logs.first_after(gone, pid)) is None:
            if any(
                other.fault.kind in ("restart", "fall-back") and other.ended_s is None for other in self.struck[-50:]
            ):
                waits_since_s = self._elapsed_s()  # nobody can take over without a server
            if self._elapsed_s() > waits_since_s + patience_s:
                return None
            await self._clock.sleep(_LOOK_S)
        duration_s = (found.at - gone).total_seconds()
        failover = Failover(
            kind=struck.fault.kind,
            fault=struck.fault.number,
            pid=pid,
            successor=found.pid,
            duration_s=duration_s,
            alone=ready and self._alone(struck, began_s, began_s + duration_s),
        )
        self.failovers.append(failover)
        return failover

    def _alone(self, struck: Struck, began_s: float, ended_s: float) -> bool:
        """True where no other fault was under way from shortly before until the end."""
        others = [other for other in self.struck[-50:] if other is not struck]
        return not any(
            other.began_s < ended_s and (other.ended_s is None or other.ended_s > began_s - UNDISTURBED_S)
            for other in others
        )

    # -- network -------------------------------------------------------------------------------------------------------

    def _lines(self, struck: Struck) -> list[Line]:
        fault = struck.fault
        if fault.whom == "writers":
            return [self._writers] if self._writers is not None else []
        pids = [struck.pid] if struck.pid is not None else list(self._relays.fleet.pids)
        assert fault.server is not None, "a fault of the network names a server"
        return [line for pid in pids for line in self._relays.lines(pid, fault.server)]

    async def _trouble(self, fault: Fault, lines: Sequence[Line]) -> None:
        assert fault.kind in ("cut", "hold", "half-open", "slow", "narrow")
        trouble = Trouble(fault.kind, fault.way, fault.delay_s, fault.bytes_per_s)
        for line in lines:
            line.begin(trouble)
        try:
            await self._clock.sleep(fault.seconds)
        finally:
            for line in lines:
                line.end(trouble)

    async def _terminate(self, lines: Sequence[Line]) -> None:
        ports = [port for line in lines for port in line.own_ports()]
        await self._database.end_sessions(ports)
