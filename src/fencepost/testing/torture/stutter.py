"""A server that stands still again and again: a stand-in for a slow disk, which needs no rights of an administrator."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Protocol

from fencepost.clock import Clock

RUNS_S = 0.1
"""For how long it runs between two stops."""


class Stuttering(Protocol):
    """A server whose process, or the one of each node, can be stopped for a moment."""

    async def stutter(self, number: int, *, seconds: float, stopped_s: float) -> None:
        """For ``seconds``, SIGSTOP a node for ``stopped_s`` and let it run for RUNS_S, again and again."""
        ...


async def stutter(send: Callable[[signal.Signals], None], seconds: float, stopped_s: float, clock: Clock) -> None:
    """Stop and wake what ``send`` reaches. It is awake at the end."""
    until = clock.monotonic() + seconds
    try:
        while clock.monotonic() < until:
            send(signal.SIGSTOP)
            await clock.sleep(stopped_s)
            send(signal.SIGCONT)
            await clock.sleep(RUNS_S)
    finally:
        send(signal.SIGCONT)
