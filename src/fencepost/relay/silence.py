"""Tells while a broker does not answer: people should know why nothing moves before the call ends with an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.clock import Clock
from fencepost.events import NoAnswer, Observer

TOLD_AFTER_S = 2.0
"""The first time; then each time after twice as long."""

_LOOK_EVERY_S = 0.5


class Silence:
    """The one call of a lane that waits for the broker, if any. ``watch`` runs beside, once for all calls: a timer for
    each one would cost more than the call.
    """

    def __init__(self, lane: str, observer: Observer, clock: Clock) -> None:
        self._lane, self._observer, self._clock = lane, observer, clock
        self._doing: str | None = None
        self._since = 0.0
        self._tell_at_s = TOLD_AFTER_S

    @contextmanager
    def waiting(self, doing: str) -> Iterator[None]:
        """Around a call. ``doing`` is told to people ("publishing")."""
        self._doing, self._since, self._tell_at_s = doing, self._clock.monotonic(), TOLD_AFTER_S
        try:
            yield
        finally:
            self._doing = None

    async def watch(self) -> None:
        """Tell of every call that takes long, until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_EVERY_S)
            waited_s = self._clock.monotonic() - self._since
            if self._doing is not None and waited_s >= self._tell_at_s:
                self._tell_at_s *= 2
                self._observer(NoAnswer(lane=self._lane, doing=self._doing, waited_s=waited_s))
