"""Opening a SQLite file with aiosqlite, whose thread ends before a failure is told.

The library bids it end and waits for nothing; it would report to an event loop that may be closed by then.
"""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Any

_GOODBYE_S = 2.0
"""A failed opening is over within moments; one that was given up may still wait for a file system."""


async def opened(driver: Any, address: str, **arguments: Any) -> Any:
    """A connection of ``driver``, the module aiosqlite. Raises what it raises."""
    opening = driver.connect(address, **arguments)
    thread: Thread = getattr(opening, "_thread", opening)  # before 0.22 it was the thread
    thread.daemon = True  # a process that must end does so, whatever SQLite waits for
    try:
        return await opening
    except BaseException:
        if thread.is_alive():
            await asyncio.to_thread(thread.join, _GOODBYE_S)
        raise
