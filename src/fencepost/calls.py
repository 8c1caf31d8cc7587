"""The calls of one session: each in time, all of them over when the session ends, refused ever after.

A plug-in of a database may use it for what ``fencepost.ports.Session`` asks of every call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fencepost.errors import ConnectionLost, DeadlineExceeded

T = TypeVar("T")


def is_cancelled() -> bool:
    """Whether the caller itself was cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Calls:
    """``place`` names the database in errors. Made in the event loop in which the calls are made."""

    def __init__(self, place: str, timeout_s: float) -> None:
        self._place, self._timeout_s = place, timeout_s
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def make(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the awaited call returns; whatever it raises passes.

        Raises ConnectionLost where the session has ended, before or meanwhile, and DeadlineExceeded after
        ``timeout_s``. After either of them, raised here or by the call itself, the session has ended.

        A call that is given up is cancelled, and not waited for: what runs in a thread goes on there.
        """
        self.check()
        running = asyncio.ensure_future(call())
        try:
            await asyncio.wait((running, self._ended), timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED)
            return self._result(running)
        except (ConnectionLost, DeadlineExceeded) as error:
            self.end(error.what.removeprefix(f"{self._place}: "))
            raise
        finally:
            running.cancel()

    def check(self) -> None:
        """Raise ConnectionLost where the session has ended."""
        if self._ended.done():
            raise ConnectionLost(f"{self._place}: {self._ended.result()}")

    def end(self, why: str) -> None:
        """The session is over; the first cause is the one that is told."""
        if not self._ended.done():
            self._ended.set_result(why)

    def _result(self, running: asyncio.Future[T]) -> T:
        if running.done():
            return running.result()
        self.check()
        raise DeadlineExceeded(f"{self._place} did not answer within {self._timeout_s:g} s")
