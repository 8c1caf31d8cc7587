"""How faults are made and measured, without servers: who is struck, what is put back, when a fail-over counts."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.testing.torture import faults
from fencepost.testing.torture.cluster import Cluster
from fencepost.testing.torture.faults import Faults
from fencepost.testing.torture.network import Line
from fencepost.testing.torture.proxy import Trouble
from fencepost.testing.torture.records import Fault, Kind
from fencepost.testing.torture.relay_logs import RelayLogs, TakeOver
from fencepost.testing.torture.relays import Relays
from fencepost.testing.torture.stutter import stutter
from fencepost.testing.torture.targets import Targets


class FakeFleet:
    """Two relays; what happened to them is written down."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.pids = [7, 8]

    def runs(self, pid: int) -> bool:
        return pid in self.pids

    def has_started(self, pid: int) -> bool:
        return True

    async def kill(self, pid: int) -> None:
        self.pids.remove(pid)
        self.happened.append(f"kill {pid}")

    def pause(self, pid: int) -> None:
        self.happened.append(f"pause {pid}")

    def wake(self, pid: int) -> None:
        if pid not in self.pids:
            raise KeyError(pid)
        self.happened.append(f"wake {pid}")


class FakeRelays:
    """Relays with one line each, which only writes down its troubles."""

    def __init__(self) -> None:
        self.fleet = FakeFleet()

    def standbys(self, leader: int | None) -> list[int]:
        return [pid for pid in self.fleet.pids if pid != leader]

    def lines(self, pid: int, server: str) -> list[Line]:
        return [cast(Line, FakeLine(f"{pid} {server}", self.fleet.happened))]

    async def start(self) -> int:
        self.fleet.happened.append("start")
        return 9


class FakeLine:
    def __init__(self, name: str, happened: list[str]) -> None:
        self._name, self._happened = name, happened

    def begin(self, trouble: Trouble) -> None:
        self._happened.append(f"{trouble.kind} {self._name} {trouble.way}")

    def end(self, trouble: Trouble) -> None:
        self._happened.append(f"end of {trouble.kind} {self._name}")


class FakeCluster:
    """Nodes that come back at once; how many are away at the same time is what counts."""

    def __init__(self, happened: list[str]) -> None:
        self._happened, self._lock, self.away, self.most_away = happened, asyncio.Lock(), 0, 0

    def turn(self) -> asyncio.Lock:
        return self._lock

    async def restart(self, number: int, *, by_force: bool, down_s: float) -> None:
        self._happened.append(f"node {number} {by_force}")
        self.away += 1
        self.most_away = max(self.most_away, self.away)
        await SYSTEM_CLOCK.sleep(down_s)
        self.away -= 1

    async def stutter(self, number: int, *, seconds: float, stopped_s: float) -> None:
        self._happened.append(f"stutter {number} {seconds} {stopped_s}")


NOBODY = Targets(restart={})


def making(relays: FakeRelays, logs: RelayLogs, targets: Targets = NOBODY) -> Faults:
    async def leader() -> int | None:
        return 7

    return Faults(cast(Relays, relays), leader, logs, None, targets, cast(Any, None), SYSTEM_CLOCK)


def fault(kind: Kind, **more: Any) -> Fault:
    return Fault(number=1, at_s=0.0, kind=kind, whom=more.pop("whom", "leader"), **more)


async def taken_over(logs: RelayLogs, after_s: float) -> None:
    await SYSTEM_CLOCK.sleep(after_s)
    logs.take_overs.append(TakeOver(SYSTEM_CLOCK.now(), 8, 2))


async def made(schedule: Sequence[Fault], *, successor_after_s: float | None) -> tuple[Faults, list[str]]:
    relays, logs = FakeRelays(), RelayLogs(dict[int, Path]())
    making_faults = making(relays, logs)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        if successor_after_s is not None:
            group.create_task(taken_over(logs, successor_after_s))
        await making_faults.run(schedule)
    return making_faults, relays.fleet.happened


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SUCCESSOR_S": 0.3, "_RESTART_S": 0.02, "_LEADER_S": 0.2, "_AFTER_PAUSE_S": 0.05}.items():
        monkeypatch.setattr(faults, name, value)


async def test_a_killed_leader_is_replaced_and_its_successor_is_timed() -> None:
    found, happened = await made([fault("kill")], successor_after_s=0.15)
    assert happened == ["kill 7", "start"]
    (failover,) = found.failovers
    assert (failover.pid, failover.successor, failover.alone) == (7, 8, True)
    assert 0.05 < failover.duration_s < 2
    assert found.orphaned == []
    assert [struck.outcome for struck in found.struck] == ["done"]


async def test_a_leader_without_a_successor_is_an_error() -> None:
    found, _ = await made([fault("kill")], successor_after_s=None)
    assert found.failovers == []
    assert found.orphaned == ["nobody took over within 0.3 s after kill leader"]


async def test_a_pause_without_a_fail_over_is_none() -> None:
    found, happened = await made([fault("pause", seconds=0.05)], successor_after_s=None)
    assert happened == ["pause 7", "wake 7"]
    assert (found.failovers, found.orphaned) == ([], [])


async def test_what_was_sent_late_arrives_before_its_sender_wakes() -> None:
    late = fault("late", server="broker", seconds=0.4)
    found, happened = await made([late], successor_after_s=0.3)
    assert happened == ["hold 7 broker to server", "pause 7", "end of hold 7 broker", "wake 7"]
    assert [failover.kind for failover in found.failovers] == ["late"]


async def test_troubles_end_also_where_the_run_is_interrupted() -> None:
    relays = FakeRelays()
    running = asyncio.create_task(
        making(relays, RelayLogs({})).run([fault("half-open", whom="relays", server="database", seconds=30)])
    )
    await SYSTEM_CLOCK.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(relays.fleet.happened) == [
        "end of half-open 7 database", "end of half-open 8 database",
        "half-open 7 database both", "half-open 8 database both",
    ]  # fmt: skip


async def test_a_fail_over_amid_another_fault_is_not_alone() -> None:
    slow = fault("slow", whom="relays", server="broker", seconds=0.3, delay_s=0.01)
    found, _ = await made([slow, fault("kill")], successor_after_s=0.15)
    assert [failover.alone for failover in found.failovers] == [False]


async def test_one_node_is_away_at_a_time_and_each_fault_begins_when_it_is_made() -> None:
    relays = FakeRelays()
    cluster = FakeCluster(relays.fleet.happened)
    targets = Targets(restart={}, cluster=cast(Cluster, cluster), stutter=cluster)
    found = making(relays, RelayLogs({}), targets)
    first, second = (fault("node", whom="broker", server="broker", node=node, seconds=0.1) for node in (2, 0))
    await found.run([first, second, fault("stutter", whom="broker", node=1, seconds=0.5, delay_s=0.2)])
    assert relays.fleet.happened == ["node 2 True", "stutter 1 0.5 0.2", "node 0 True"]
    assert cluster.most_away == 1
    assert found.struck[1].began_s >= 0.1 <= (found.struck[0].ended_s or 0)
    assert {struck.outcome for struck in found.struck} == {"done"}


async def test_a_stuttering_process_stands_still_again_and_again_and_runs_at_the_end() -> None:
    sent: list[signal.Signals] = []
    began = SYSTEM_CLOCK.monotonic()
    await stutter(sent.append, 0.3, 0.05, SYSTEM_CLOCK)
    assert 0.3 <= SYSTEM_CLOCK.monotonic() - began < 5
    assert sent[:-1] == [signal.SIGSTOP, signal.SIGCONT] * (len(sent) // 2)
    assert sent[-1] is signal.SIGCONT
    interrupted = asyncio.create_task(stutter(sent.append, 30, 30, SYSTEM_CLOCK))
    await SYSTEM_CLOCK.sleep(0.02)
    interrupted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await interrupted
    assert sent[-2:] == [signal.SIGSTOP, signal.SIGCONT]


async def test_a_fault_that_cannot_be_made_is_told() -> None:
    relays = FakeRelays()
    relays.fleet.pids = []
    found = making(relays, RelayLogs({}))
    await found.run([fault("kill"), fault("kill", whom="standby")])
    assert [s.outcome for s in found.struck] == [
        "not made: there was no leader for 0.2 s", "not made: there was no standby for 0.2 s",
    ]  # fmt: skip


def test_the_moment_of_a_take_over_is_that_of_the_relays_log() -> None:
    logs = RelayLogs({})
    early, late = (datetime.fromisoformat(f"2026-01-01T00:00:0{n}+00:00") for n in (1, 2))
    logs.take_overs += [TakeOver(late, 8, 2), TakeOver(early, 9, 1)]  # files are read one after the other
    found = logs.first_after(datetime.fromisoformat("2026-01-01T00:00:00+00:00"), not_pid=7)
    assert found is not None
    assert found.at == early
