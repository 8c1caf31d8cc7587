"""The clocks of the simulated machines: a wall clock that may be wrong or jump, a monotonic one that may drift."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

from fencepost.clock import uuid7
from fencepost.testing.simulation.loop import VirtualLoop

_START = datetime(2030, 1, 1, tzinfo=UTC)


class VirtualClock:
    """A Clock on virtual time. ``rate`` is how fast it runs (1.0: right); ``wrong_s`` what the wall clock adds."""

    def __init__(self, loop: VirtualLoop, chance: random.Random, *, rate: float = 1.0, wrong_s: float = 0.0) -> None:
        self._loop, self._chance, self._rate = loop, chance, rate
        self.wrong_s = wrong_s

    def now(self) -> datetime:
        """The wall clock."""
        return _START + timedelta(seconds=self._loop.now_s * self._rate + self.wrong_s)

    def monotonic(self) -> float:
        """Seconds of this machine."""
        return self._loop.now_s * self._rate

    async def sleep(self, seconds: float) -> None:
        """Sleep by this machine's clock."""
        await asyncio.sleep(max(seconds, 0.0) / self._rate)

    def random(self) -> float:
        """A number from the seed."""
        return self._chance.random()

    def new_id(self) -> str:
        """An id from the seed and the wall clock."""
        return uuid7(int(self.now().timestamp() * 1000), self._chance.randbytes(10))
