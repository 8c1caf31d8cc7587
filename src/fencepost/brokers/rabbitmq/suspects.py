"""Places of which the server closed a channel: what is for them is sent alone, or not at all for a while."""

from __future__ import annotations

from collections import OrderedDict

from fencepost.brokers.rabbitmq.encode import Route
from fencepost.clock import Clock
from fencepost.errors import FencepostError

REFUSED_S = 10.0
"""How long a place that was refused is not tried again: every try costs a channel."""
_KEPT_MAX = 10_000


class Suspects:
    """Shared by all lanes of a broker: a channel that is closed must not teach each of them anew."""

    def __init__(self, clock: Clock, message_bytes_max: int) -> None:
        self._clock = clock
        self._places: OrderedDict[Route, tuple[float, FencepostError | None]] = OrderedDict()
        self.message_bytes_max = message_bytes_max
        """The limit of a body: that of the settings, or the server's where it is lower and known."""

    def has(self, route: Route) -> bool:
        """True where a message for it must be sent alone."""
        return bool(self._places) and route in self._places

    def refusal(self, route: Route) -> FencepostError | None:
        """Why nothing is sent to it now; None where it may be tried."""
        until, error = self._places.get(route, (0.0, None)) if self._places else (0.0, None)
        return error if until > self._clock.monotonic() else None

    def add(self, route: Route) -> None:
        """A channel was closed, perhaps because of a message to it."""
        self._places.setdefault(route, (0.0, None))
        while len(self._places) > _KEPT_MAX:  # places taken from data must not fill the memory
            self._places.popitem(last=False)

    def refused(self, route: Route, error: FencepostError) -> None:
        """A channel was closed because of a message to it."""
        self._places[route] = (self._clock.monotonic() + REFUSED_S, error)

    def clear(self, route: Route) -> None:
        """The server took a message to it."""
        if self._places:
            self._places.pop(route, None)

    def limit(self, bytes_max: int | None) -> None:
        """The server has told its limit."""
        if bytes_max is not None:
            self.message_bytes_max = min(self.message_bytes_max, bytes_max)
