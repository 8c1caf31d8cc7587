"""The trouble that a demonstration makes ends by itself."""

from __future__ import annotations

import asyncio
from typing import cast

from fencepost.clock import SYSTEM_CLOCK
from fencepost.demo.chance import Chance
from fencepost.demo.chaos import LEASES_ASLEEP, Chaos, Leader
from fencepost.demo.fleet import Fleet

TTL_S = 0.02


class OneRelay:
    """A leader that keeps everybody from writing while it is paused."""

    def __init__(self) -> None:
        self.paused_at = self.woken_at = float("inf")

    def runs(self, pid: int) -> bool:
        return pid == 7

    def all_started(self) -> bool:
        return True

    def pause(self, pid: int) -> None:
        assert pid == 7
        self.paused_at = SYSTEM_CLOCK.monotonic()

    def wake(self, pid: int) -> None:
        assert pid == 7
        self.woken_at = min(self.woken_at, SYSTEM_CLOCK.monotonic())

    def read_after(self, _moment: float) -> float | None:
        return self.woken_at + 0.01 if self.woken_at < float("inf") else None


async def test_who_is_paused_is_woken_also_where_nobody_can_take_its_place() -> None:
    """A relay that is stopped in the middle of a write to SQLite holds the one lock that all need."""
    relay = OneRelay()

    async def leader() -> Leader:
        return (7, 1)

    chaos = Chaos(cast(Fleet, relay), leader, relay.read_after, TTL_S, SYSTEM_CLOCK)
    async with asyncio.timeout(5):
        await chaos.run(["pause"], 0.05, Chance(1, "chaos"))
    assert LEASES_ASLEEP * TTL_S <= relay.woken_at - relay.paused_at < 2
    (failover,) = chaos.failovers
    assert (failover.kind, failover.pid) == ("pause", 7)
