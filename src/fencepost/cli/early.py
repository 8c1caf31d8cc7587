"""SIGTERM and SIGINT before a relay's loop can hear them: its modules take most of a second to load.

The first one is remembered until there is a relay that can be told to stop; a second one ends the process at once, as
it does later.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.clock import Clock

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAME_S = 0.5
"""Signals that come so soon after the first one are the same one."""


class Early:
    """What was heard. ``number`` is that of the first signal, None where there was none."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._since_s = 0.0

    def listen(self, arguments: Sequence[str]) -> None:
        """From now on, where a relay is to run; every other command may end at any moment."""
        if next((word for word in arguments if not word.startswith("-")), None) != "relay":
            return
        from fencepost.clock import SYSTEM_CLOCK  # it brings asyncio along, which other commands may not need

        self._clock: Clock = SYSTEM_CLOCK
        for each in SIGNALS:
            signal.signal(each, self._hear)

    def _hear(self, number: int, _: FrameType | None) -> None:
        now_s = self._clock.monotonic()
        if self.number is None:
            self.number, self._since_s = number, now_s
        elif now_s - self._since_s > SAME_S:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


EARLY = Early()
