"""Tells while a server does not answer: people should know why nothing moves before the call ends with an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from fencepost.clock import Clock
from fencepost.events import NoAnswer, Observer

TOLD_AFTER_S = 2.0
"""The first time; then each time after twice as long."""

_LOOK_EVERY_S = 0.5


@dataclass(slots=True, eq=False)
class _Call:
    doing: str
    since_s: float
    tell_at_s: float


class Silence:
    """The calls of a lane that wait for a server. One task watches them all: a timer for each one would cost more than
    the call.
    """

    def __init__(self, lane: str, observer: Observer, clock: Clock) -> None:
        self._lane, self._observer, self._clock = lane, observer, clock
        self._calls: set[_Call] = set()

    @contextmanager
    def waiting(self, doing: str) -> Iterator[None]:
        """Around a call. ``doing`` is told to people ("publishing")."""
        call = _Call(doing, self._clock.monotonic(), TOLD_AFTER_S)
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While the block lasts every call that takes long is told."""
        watching = asyncio.ensure_future(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            for call in list(self._calls):
                waited_s = self._clock.monotonic() - call.since_s
                if waited_s >= call.tell_at_s:
                    call.tell_at_s *= 2
                    self._observer(NoAnswer(lane=self._lane, doing=call.doing, waited_s=waited_s))
