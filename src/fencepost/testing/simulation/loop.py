"""An event loop in which time passes only when nobody has anything to do, and processes that can stop in the middle.

Every task belongs to the process in whose context it was made. A process that crashed never runs again, not even its
``finally`` blocks, as after a kill -9; one that is paused runs nothing until it is woken, and then everything that
became due meanwhile, as after SIGSTOP and SIGCONT.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_KEPT_TASKS = 2_000


class Stuck(RuntimeError):
    """Nothing is due and nothing ever will be: the simulation itself is wrong."""


class Life(enum.Enum):
    """What a process does."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """Tasks that live and die together. ``name`` is a party of the network."""

    def __init__(self, name: str, loop: VirtualLoop) -> None:
        self.name = name
        self.life = Life.RUNNING
        self._loop = loop
        self._held: list[_Step] = []

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of this process."""
        context = copy_context()
        context.run(_PROCESS.set, self)
        task: asyncio.Task[T] = self._loop.create_task(work, context=context)
        return task

    def pause(self) -> None:
        """Run nothing from now on, until ``wake``."""
        if self.life is Life.RUNNING:
            self.life = Life.PAUSED

    def wake(self) -> None:
        """Go on, with everything that became due meanwhile."""
        if self.life is Life.PAUSED:
            self._resume()

    def crash(self) -> None:
        """Run nothing ever again."""
        self.life = Life.DEAD

    def revive(self) -> None:
        """For the end of a simulation only: let the tasks be cancelled in the ordinary way."""
        self._resume()

    def _resume(self) -> None:
        self.life = Life.RUNNING
        held, self._held = self._held, []
        for step in held:
            self._loop.schedule(step)

    def hold(self, step: _Step) -> None:
        """Keep a step for later (those of a dead process for ``revive``)."""
        self._held.append(step)


_PROCESS: ContextVar[Process | None] = ContextVar("simulated process", default=None)


def current() -> Process | None:
    """The process in whose context this runs; None for the network and the simulation itself."""
    return _PROCESS.get()


class _Step(asyncio.TimerHandle):
    """A callback of a process, or of nobody."""

    __slots__ = ("process",)

    def __init__(
        self,
        when_s: float,
        callback: Callable[..., object],
        arguments: Sequence[object],
        loop: VirtualLoop,
        context: Context,
    ) -> None:
        super().__init__(when_s, callback, arguments, loop, context)
        self.process = context.get(_PROCESS)

    def _run(self) -> None:
        if self.process is None or self.process.life is Life.RUNNING:
            super()._run()
        else:
            self.process.hold(self)


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module. ``now_s`` counts from 0. It knows neither files nor threads: only tasks and times."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._due: deque[_Step] = deque()
        self._later: list[tuple[float, int, _Step]] = []
        self._number = count()  # of two steps for the same moment the earlier one comes first
        self._tasks: list[asyncio.Task[Any]] = []  # a task of a dead process must not be collected: that would run it

    def time(self) -> float:
        """Virtual seconds."""
        return self.now_s

    def create_task(self, coro: Any, **options: Any) -> Any:
        """As asyncio's."""
        task = super().create_task(coro, **options)
        self._tasks.append(task)
        if len(self._tasks) > _KEPT_TASKS:
            self._tasks = self.unfinished()
        return task

    def unfinished(self) -> list[asyncio.Task[Any]]:
        """Every task that has not ended, in the order in which they were made."""
        return [task for task in self._tasks if not task.done()]

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's, within the process of the context."""
        step = _Step(self.now_s, callback, args, self, copy_context() if context is None else context)
        self._due.append(step)
        return step

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's, within the process of the context."""
        step = _Step(when, callback, args, self, copy_context() if context is None else context)
        heappush(self._later, (when, next(self._number), step))
        return step

    call_soon_threadsafe = call_soon  # asyncio ends an abandoned generator by it; there are no threads

    def schedule(self, step: _Step) -> None:
        """Run a step that was held."""
        self._due.append(step)

    def _run_once(self) -> None:
        """What asyncio calls again and again: everything that is due, once; time passes where nothing is."""
        later = self._later
        if not self._due:
            self._let_time_pass()
        while later and later[0][0] <= self.now_s:
            self._due.append(heappop(later)[2])
        for _ in range(len(self._due)):
            step = self._due.popleft()
            if not step.cancelled():
                step._run()

    def _let_time_pass(self) -> None:
        while self._later and self._later[0][2].cancelled():
            heappop(self._later)
        if not self._later:
            raise Stuck("no task has anything to wait for")
        self.now_s = max(self.now_s, self._later[0][0])
