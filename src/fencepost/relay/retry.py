"""When to try again: capped, jittered back-off, and the circuit that says so."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.clock import Clock
from fencepost.errors import FencepostError, FixError
from fencepost.events import CircuitClosed, CircuitOpened, Observer

_DOUBLINGS_MAX = 32  # beyond it the cap holds anyway, and the number stays small


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from ``base_s`` up to ``cap_s``; each is drawn from its upper half, so that many do not
    march in step.
    """

    base_s: float
    cap_s: float
    clock: Clock

    def delay_s(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row (1 or more)."""
        whole = min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))
        return whole * (0.5 + 0.5 * self.clock.random())


class Circuit:
    """Whether a lane gets on. Open from the first failure to the next success; the cause and the times are told to
    the observer.
    """

    def __init__(self, lane: str, backoff: Backoff, observer: Observer) -> None:
        self._lane, self._backoff, self._observer = lane, backoff, observer
        self._failures = 0
        self._since = 0.0
        self.cause: str | None = None
        """Why it is open; None while it is closed."""

    def failed(self, error: FencepostError) -> float:
        """Note a failure; seconds to wait before the next try. What a person must mend is tried at the cap only."""
        if not self._failures:
            self._since = self._backoff.clock.monotonic()
        self._failures += 1
        self.cause = str(error)
        delay_s = self._backoff.cap_s if isinstance(error, FixError) else self._backoff.delay_s(self._failures)
        self._observer(CircuitOpened(lane=self._lane, cause=self.cause, failures=self._failures, delay_s=delay_s))
        return delay_s

    def succeeded(self) -> None:
        """Note that it gets on."""
        if self._failures:
            self._failures, self.cause = 0, None
            self._observer(CircuitClosed(lane=self._lane, open_s=self._backoff.clock.monotonic() - self._since))
