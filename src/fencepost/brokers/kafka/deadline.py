"""How long a call may still take, handed on from call to call."""

from __future__ import annotations

from fencepost.clock import Clock

_LEAST_S = 0.001
"""librdkafka takes 0 for "do not wait" and less for "wait for ever"; neither is ever meant."""


class Deadline:
    """A moment on the monotonic clock, ``seconds`` from now."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._end = clock.monotonic() + seconds

    def left_s(self, at_most: float | None = None) -> float:
        """Seconds until then, never less than a millisecond and never more than ``at_most``."""
        left = max(self._end - self._clock.monotonic(), _LEAST_S)
        return left if at_most is None else min(left, at_most)

    @property
    def over(self) -> bool:
        """True from then on."""
        return self._clock.monotonic() >= self._end

    def again(self) -> Deadline:
        """As many seconds as this one had, from now."""
        return Deadline(self._clock, self._seconds)

    def sooner(self, seconds: float) -> Deadline:
        """This deadline, or one in ``seconds`` where that is sooner."""
        return Deadline(self._clock, self.left_s(seconds))
