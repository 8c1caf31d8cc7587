"""The trouble of a demonstration: the leader is killed again and again at moments that are drawn, and paused once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Literal

from fencepost.clock import Clock
from fencepost.demo.chance import Chance
from fencepost.demo.fleet import Fleet
from fencepost.demo.records import Failover
from fencepost.errors import Unavailable

LEASES_ASLEEP = 3
_LOOK_S = 0.02
_RESTART_S = 0.5
_GIVE_UP_S = 60.0

Leader = tuple[int, int]
"""Pid and term."""

_Kind = Literal["kill", "pause"]


class Chaos:
    """Kills and pauses leaders. ``leader`` asks who leads now, ``read_after`` tells when the first message was read
    whose transaction began after a moment (None: not yet); all moments are monotonic seconds.
    """

    def __init__(
        self,
        fleet: Fleet,
        leader: Callable[[], Awaitable[Leader | None]],
        read_after: Callable[[float], float | None],
        ttl_s: float,
        clock: Clock,
    ) -> None:
        self._fleet, self._leader, self._read_after = fleet, leader, read_after
        self._ttl_s, self._clock = ttl_s, clock
        self.failovers: list[Failover] = []
        self.note = ""

    async def run(self, kinds: Sequence[_Kind], seconds: float, chance: Chance) -> None:
        """One after the other, spread over ``seconds``; each begins when the one before it is over."""
        started = self._clock.monotonic()
        for kind, moment in zip(kinds, moments(len(kinds), seconds, chance), strict=True):
            await self._clock.sleep(started + moment - self._clock.monotonic())
            await (self._kill() if kind == "kill" else self._pause())

    async def _kill(self) -> None:
        pid, term = await self._found()
        at = self._clock.monotonic()
        await self._fleet.kill(pid)
        self.note = f"leader {pid} was killed (SIGKILL)"
        await self._clock.sleep(_RESTART_S)  # as a supervisor does
        await self._fleet.start()
        await self._recovered("kill", pid, term, at)

    async def _pause(self) -> None:
        pid, term = await self._found()
        at = self._clock.monotonic()
        self._fleet.pause(pid)
        self.note = f"leader {pid} is paused (SIGSTOP) for {LEASES_ASLEEP} leases"
        # Not waited for first: who is paused in the middle of a write to SQLite keeps everybody from writing.
        recovered = asyncio.ensure_future(self._recovered("pause", pid, term, at))
        try:
            await self._clock.sleep(at + LEASES_ASLEEP * self._ttl_s - self._clock.monotonic())
            self._fleet.wake(pid)
            self.note = f"the former leader {pid} is awake again (SIGCONT)"
            await recovered
        finally:
            self._fleet.wake(pid)
            recovered.cancel()
            await asyncio.gather(recovered, return_exceptions=True)

    async def _found(self) -> Leader:
        """The leader, once there is one that is ours and somebody to take its place."""
        give_up = self._clock.monotonic() + _GIVE_UP_S
        while self._clock.monotonic() < give_up:
            leader = await self._leader()
            if leader is not None and self._fleet.runs(leader[0]) and self._fleet.all_started():
                return leader
            await self._clock.sleep(_LOOK_S)
        raise Unavailable(f"no relay has become the leader within {_GIVE_UP_S:g} s")

    async def _recovered(self, kind: _Kind, pid: int, term: int, at: float) -> None:
        while (read_at := self._read_after(at)) is None:
            if self._clock.monotonic() > at + _GIVE_UP_S:
                raise Unavailable(f"nothing was published within {_GIVE_UP_S:g} s after the {kind} of the leader")
            await self._clock.sleep(_LOOK_S)
        self.failovers.append(Failover(kind=kind, pid=pid, term=term, duration_s=read_at - at))


def plan(kills: int, *, pause: bool) -> list[_Kind]:
    """The kills, with the pause in their middle."""
    kinds: list[_Kind] = ["kill"] * kills
    if pause:
        kinds.insert((kills + 1) // 2, "pause")
    return kinds


def moments(count: int, seconds: float, chance: Chance) -> Iterator[float]:
    """One moment in each of ``count`` equal parts of the time, after a quiet beginning."""
    quiet_s = min(1.5, seconds / 10)
    part_s = (seconds - quiet_s) / max(count, 1)
    return (quiet_s + (n + chance.between(0.1, 0.6)) * part_s for n in range(count))
