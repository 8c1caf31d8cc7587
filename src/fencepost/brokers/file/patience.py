"""How long a thread that writes may wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

LOOK_S = 0.02


class Patience:
    """``seconds`` from now on by the clock ``monotonic``, or until ``end`` is called from elsewhere."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._monotonic, self._until_s = monotonic, monotonic() + seconds
        self._ended = threading.Event()

    @property
    def left_s(self) -> float:
        """How much there is, at least 0."""
        return 0.0 if self._ended.is_set() else max(0.0, self._until_s - self._monotonic())

    def wait(self) -> bool:
        """Wait a moment; False where there is no patience left."""
        self._ended.wait(LOOK_S)
        return self.left_s > 0

    def end(self) -> None:
        """Nobody waits for the thread any more."""
        self._ended.set()
