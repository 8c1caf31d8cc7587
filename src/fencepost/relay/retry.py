"""When to try again: capped, jittered back-off, and the circuit that says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fencepost.clock import Clock
from fencepost.errors import FencepostError, FixError
from fencepost.events import CircuitClosed, CircuitOpened, Observer, TopicHeld, TopicResumed
from fencepost.message import Stored

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
        self._topics: dict[str, _Held] = {}

    @property
    def held(self) -> Mapping[str, str]:
        """The topics that wait because of the place where they go, and why."""
        return {topic: held.cause for topic, held in self._topics.items()}

    def failed(self, error: FencepostError) -> float:
        """Note a failure; seconds to wait before the next try. What a person must mend is tried at the cap only."""
        if not self._failures:
            self._since = self._backoff.clock.monotonic()
        self._failures += 1
        self.cause = str(error)
        delay_s = self._delay_s(error, self._failures)
        self._observer(CircuitOpened(lane=self._lane, cause=self.cause, failures=self._failures, delay_s=delay_s))
        return delay_s

    def succeeded(self) -> None:
        """Note that it gets on."""
        if self._failures:
            self._failures, self.cause = 0, None
            self._observer(CircuitClosed(lane=self._lane, open_s=self._backoff.clock.monotonic() - self._since))

    def topic_failed(self, topic: str, error: FencepostError, pause_s: float) -> float:
        """Note that the messages of a topic cannot go; seconds to wait, at least ``pause_s``, before the next try."""
        held = self._topics.setdefault(topic, _Held(self._backoff.clock.monotonic()))
        held.failures += 1
        held.cause = str(error)
        delay_s = max(pause_s, self._delay_s(error, held.failures))
        self._observer(
            TopicHeld(lane=self._lane, topic=topic, cause=held.cause, failures=held.failures, delay_s=delay_s)
        )
        return delay_s

    def topics_succeeded(self, messages: Iterable[Stored]) -> None:
        """Note that these have arrived."""
        if not self._topics:
            return
        for topic in {m.topic for m in messages} & self._topics.keys():
            held_s = self._backoff.clock.monotonic() - self._topics.pop(topic).since
            self._observer(TopicResumed(lane=self._lane, topic=topic, held_s=held_s))

    def _delay_s(self, error: FencepostError, failures: int) -> float:
        return self._backoff.cap_s if isinstance(error, FixError) else self._backoff.delay_s(failures)


@dataclass(slots=True)
class _Held:
    """A topic that waits, since when and why."""

    since: float
    failures: int = 0
    cause: str = ""
