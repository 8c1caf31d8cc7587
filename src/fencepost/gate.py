"""The gate that every call of an in-memory plug-in passes: where a test stops it, makes it fail, or loses its answer.

It belongs to the shared server, not to one connection, as trouble does. One event loop at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fencepost.clock import Clock
from fencepost.errors import ConnectionLost, DeadlineExceeded, FencepostError


class Bells(dict[asyncio.Event, None]):
    """Who is waiting for something, in the order in which they came: a simulation must be the same each time.

    Each wait has an event of its own, so that nothing outlives its event loop.
    """


@dataclass(frozen=True, slots=True)
class _Trouble:
    call: str | None
    error: FencepostError | None  # None: the call has its effect, its answer is lost


class Gate:
    """``what`` names the server in error texts; ``call`` is always the name of a plug-in's method.

    ``latency_s`` is how long each call takes before it has its effect.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.latency_s = 0.0
        self._paused = False
        self._bells = Bells()
        self._troubles: list[_Trouble] = []

    def pause(self) -> None:
        """Let no call through: the server takes connections and does not answer. Calls end with DeadlineExceeded."""
        self._paused = True

    def resume(self) -> None:
        """Let calls through again, those that are waiting first."""
        self._paused = False
        ring(self._bells)

    def fail_next(self, times: int, error: FencepostError, *, call: str | None = None) -> None:
        """Make the next ``times`` calls (of ``call``, or of any) raise ``error`` without any effect."""
        self._troubles.extend([_Trouble(call, error)] * times)

    def lose_answers(self, times: int, *, call: str | None = None) -> None:
        """Let the next ``times`` calls (of ``call``, or of any) have their effect, then raise ConnectionLost."""
        self._troubles.extend([_Trouble(call, None)] * times)

    async def enter(self, call: str, clock: Clock, timeout_s: float, bells: Bells) -> None:
        """Before the effect. ``bells`` ring when the caller's own connection ends, which ends the wait too."""
        with _hung((self._bells, bells)) as bell:
            await clock.sleep(self.latency_s)
            if self._paused and not await _rung(bell, clock, timeout_s):
                raise DeadlineExceeded(f"{self.what} did not answer {call} within {timeout_s:g} s")
        trouble = self._next(call, lost=False)
        if trouble is not None and trouble.error is not None:
            raise trouble.error

    def leave(self, call: str) -> None:
        """After the effect: raise ConnectionLost where this answer is to be lost."""
        if self._next(call, lost=True) is not None:
            raise ConnectionLost(f"the connection to {self.what} ended before {call} was answered")

    def _next(self, call: str, *, lost: bool) -> _Trouble | None:
        for index, trouble in enumerate(self._troubles):
            if trouble.call in {None, call} and (trouble.error is None) is lost:
                return self._troubles.pop(index)
        return None


def ring(bells: Bells) -> None:
    """Wake all who wait."""
    for bell in tuple(bells):
        bell.set()


async def wait(clock: Clock, timeout_s: float, *places: Bells) -> bool:
    """Wait until one of ``places`` is rung; False where ``timeout_s`` passed first."""
    with _hung(places) as bell:
        return await _rung(bell, clock, timeout_s)


async def _rung(bell: asyncio.Event, clock: Clock, timeout_s: float) -> bool:
    tasks = [asyncio.ensure_future(bell.wait()), asyncio.ensure_future(clock.sleep(timeout_s))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    return bell.is_set()


@contextmanager
def _hung(places: tuple[Bells, ...]) -> Iterator[asyncio.Event]:
    bell = asyncio.Event()
    for bells in places:
        bells[bell] = None
    try:
        yield bell
    finally:
        for bells in places:
            bells.pop(bell, None)
