"""What the reader that follows the topic has read, and when."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.clock import Clock
from fencepost.history import Entry


class Arrivals:
    """``begun_at`` (message id -> monotonic seconds) is filled by the writers before they commit."""

    def __init__(self, begun_at: Mapping[str, float], clock: Clock) -> None:
        self._begun_at, self._clock = begun_at, clock
        self._pairs: list[tuple[float, float]] = []
        self.count = 0

    def __call__(self, entry: Entry) -> None:
        """A message was read just now."""
        self.count += 1
        begun = self._begun_at.get(entry.id)
        if begun is not None:
            self._pairs.append((begun, self._clock.monotonic()))

    def first_after(self, moment: float) -> float | None:
        """When the first message was read whose transaction began after ``moment``; None where there was none yet."""
        found = None
        for begun, read_at in reversed(self._pairs):
            if read_at < moment:
                break
            if begun > moment:
                found = read_at
        return found

    def latency_p50_ms(self) -> float | None:
        """The median time from a transaction's begin to the reader, in milliseconds, fail-overs included."""
        latencies = sorted(read_at - begun for begun, read_at in self._pairs)
        return round(latencies[len(latencies) // 2] * 1000, 1) if latencies else None
