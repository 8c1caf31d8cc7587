"""A clock that moves only when a test says so."""

import asyncio
import heapq
import itertools
import random
from datetime import UTC, datetime, timedelta

from fencepost.clock import uuid7

_TURNS = 20  # of the event loop, until everybody who was woken has done what he can


class VirtualClock:
    """Sleepers wake in the order of their times, each seeing exactly his own."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []
        self._numbers = itertools.count()
        self._chance = random.Random(0)

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self._now_s)

    def monotonic(self) -> float:
        return self._now_s

    def random(self) -> float:
        return self._chance.random()

    def new_id(self) -> str:
        return uuid7(int(self._now_s * 1000), self._chance.randbytes(10))

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        bell = asyncio.Event()
        heapq.heappush(self._sleepers, (self._now_s + seconds, next(self._numbers), bell))
        await bell.wait()

    async def advance(self, seconds: float) -> None:
        """Let time pass; everybody does meanwhile what he does."""
        until_s = self._now_s + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= until_s:
            due_s, _, bell = heapq.heappop(self._sleepers)
            self._now_s = max(self._now_s, due_s)
            bell.set()
            await settle()
        self._now_s = until_s

    def jump(self, seconds: float) -> None:
        """Let time pass while this process is paused: nobody does anything."""
        self._now_s += seconds


async def settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
