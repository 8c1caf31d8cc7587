"""Time, chance and new ids: the only module that reads them, so that a simulation can replace all three."""

from __future__ import annotations

import asyncio
import os
import random
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the rest of the system knows of time and chance."""

    def now(self) -> datetime:
        """The wall clock: an aware datetime in UTC, microseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow; meaningful as differences inside one process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds`` (0 or less: after giving others a turn)."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def new_id(self) -> str:
        """A new UUIDv7 (RFC 9562) as text: 36 characters, lower case; later ones sort later, to the millisecond."""
        ...


def uuid7(unix_ms: int, chance: bytes) -> str:
    """The UUIDv7 of a time in milliseconds since 1970 and 10 random bytes."""
    value = (unix_ms & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(chance, "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class SystemClock:
    """The real one. It has no state: all instances are the same clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))

    def random(self) -> float:
        return random.random()

    def new_id(self) -> str:
        return uuid7(time.time_ns() // 1_000_000, os.urandom(10))


SYSTEM_CLOCK = SystemClock()
