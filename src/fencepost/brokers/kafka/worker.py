"""One thread for calls that block: they run one after the other, and none is cut off in the middle.

A task that is cancelled stops waiting; its call goes on, and whatever is asked for later runs after it. So a client is
never closed under a call that uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from fencepost.errors import ConnectionLost

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """A thread of its own, started by the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call in the thread. Raises ConnectionLost where the thread has been ended."""
        return await asyncio.wrap_future(self._submit(call, *args, **kwargs))

    async def end(self, last: Callable[[], None], patience_s: float) -> None:
        """Run one last call, which must not raise, and end the thread. After ``patience_s`` it ends without us."""
        try:
            done = asyncio.wrap_future(self._submit(last))
        except ConnectionLost:
            return
        self._executor.shutdown(wait=False)
        await asyncio.wait([done], timeout=patience_s)

    def _submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return self._executor.submit(call, *args, **kwargs)
        except RuntimeError as error:  # it was ended, or the interpreter is ending
            raise ConnectionLost(f"the thread {self._name} has ended") from error
