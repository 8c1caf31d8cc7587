"""An event loop in which time passes only when nobody has anything to do, and processes that can stop in the middle.

Every task belongs to the process in whose context it was made. A process that crashed never runs again, not even its
``finally`` blocks, as after a kill -9; one that is paused runs nothing until it is woken, and then everything that
became due meanwhile, as after SIGSTOP and SIGCONT.
"""

from __future__ import annotations

import asyncio
import enum
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
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


class _Step:
    """A callback of a process. ``handle`` is what asyncio may cancel."""

    __slots__ = ("arguments", "callback", "context", "handle", "loop", "process")

    def __init__(
        self, loop: VirtualLoop, process: Process, callback: Callable[..., object], arguments: tuple[object, ...]
    ) -> None:
        self.loop, self.process, self.callback, self.arguments = loop, process, callback, arguments
        self.context: Context | None = None
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self.process.life is not Life.RUNNING:
            self.process.hold(self)
        elif self.handle is None or not self.handle.cancelled():  # it may have been, while it was held
            self.callback(*self.arguments)


class _Selector(selectors.SelectSelector):
    """Waits by letting the loop's time pass."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("no task has anything to wait for")
        if timeout > 0:
            self.loop.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. ``now_s`` counts from 0."""

    def __init__(self) -> None:
        self.now_s = 0.0
        selector = _Selector()
        selector.loop = self
        self._tasks: list[asyncio.Task[Any]] = []  # a task of a dead process must not be collected: that would run it
        super().__init__(selector)

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
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        step = _Step(self, process, callback, args)
        step.context = copy_context() if context is None else context
        step.handle = super().call_soon(step, context=step.context)
        return step.handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's, within the process of the context."""
        process = _PROCESS.get() if context is None else context.get(_PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        step = _Step(self, process, callback, args)
        step.context = copy_context() if context is None else context
        handle = super().call_at(when, step, context=step.context)
        step.handle = handle
        return handle

    def schedule(self, step: _Step) -> None:
        """Run a step that was held."""
        super().call_soon(step, context=step.context)
