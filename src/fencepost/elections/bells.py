"""Who waits for a lease, and how he is woken before his time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Bells:
    """One for each call that waits, hung up for as long as it does."""

    def __init__(self) -> None:
        self._hung: set[tuple[str, asyncio.Event]] = set()

    def __len__(self) -> int:
        return len(self._hung)

    @contextmanager
    def hung(self, name: str) -> Iterator[asyncio.Event]:
        """A bell for what ``name`` stands for: a lease, or a channel."""
        mine = (name, asyncio.Event())
        self._hung.add(mine)
        try:
            yield mine[1]
        finally:
            self._hung.discard(mine)

    def ring(self, name: str | None) -> None:
        """Wake those who wait for ``name``; None: for any."""
        for waited_for, bell in self._hung:
            if name in {None, waited_for}:
                bell.set()


async def rung(bell: asyncio.Event, timeout_s: float) -> bool:
    """Whether it rings within this time."""
    try:
        async with asyncio.timeout(timeout_s):
            await bell.wait()
    except TimeoutError:
        return False
    return True
