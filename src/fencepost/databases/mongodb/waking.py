"""How a reader that found nothing waits: short looks while messages come, then a change stream, where there is one.

A stream of everything that is written would cost a busy relay as much as reading it. So it is opened only when several
looks have found nothing, from that moment on, and closed when there is much to do again. What was committed before it
was open is found by the look that follows. Looking is the truth; the stream only makes it quick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pymongo.errors import PyMongoError

from fencepost.databases.mongodb.connection import Line
from fencepost.message import Position, Stored

FIRST_WAIT_S = 0.002
LOOKS_AWAKE = 5
"""Looks that find nothing (after 2, 4, 8, 16 and 32 ms) before a stream is opened."""

WITHOUT_STREAM_S = 0.25
"""The longest wait where the server has no change streams."""

BUSY_ROWS = 100
"""So many messages in one look close the stream."""

_ANSWER_WITHIN_MS = 1_000

Watch = Callable[..., Awaitable[Any]]
"""``watch`` of a collection or of a database."""


class Waking:
    """The waits of one session."""

    def __init__(self, line: Line, watch: Watch, pipeline: Sequence[Mapping[str, Any]]) -> None:
        self._line = line
        self._watch, self._pipeline = watch, pipeline
        self._looks = 0
        self._bottom: tuple[Position, ...] = ()
        self._listening: asyncio.Task[None] | None = None
        self._open = asyncio.Event()
        self._stop = asyncio.Event()
        self._looked = asyncio.Event()
        self.streams = True
        """False once the server has said that it has none, or not for this user."""

    def look(self) -> None:
        """A look at the bottom begins: what rings from here on is news."""
        self._line.bell.clear()
        self._looked.set()

    def found(self, rows: Sequence[Stored], after: Position | None) -> None:
        """Take note of what it brought. Rows that still stand there (they wait for something) are not new."""
        ends = (rows[0].position, rows[-1].position) if rows else ()
        new = bool(rows) and (after is not None or ends != self._bottom)
        if after is None:
            self._bottom = ends
        if new:
            self._looks = 0
        if new and len(rows) >= BUSY_ROWS:
            self._stop.set()

    async def wait(self, timeout_s: float) -> None:
        """Return when it is worth another look, at the latest after ``timeout_s``."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError  # a call of the driver's has swallowed it: nobody says it again
        self._line.must_live()
        if self._looks >= LOOKS_AWAKE and self.streams and not self._hears:
            await self._listen()
            self._line.must_live()
            return  # for a look: what was committed until now rings no bell
        wait_s = timeout_s if self._hears else min(self._next_wait_s(), timeout_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._line.bell.wait()
        self._line.must_live()

    async def close(self) -> None:
        """End the stream. Never raises."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    @property
    def _hears(self) -> bool:
        listens = self._listening is not None and not self._listening.done()
        return listens and self._open.is_set() and not self._stop.is_set()

    def _next_wait_s(self) -> float:
        wait_s = FIRST_WAIT_S * 2.0 ** min(self._looks, 16)
        self._looks += 1
        return min(wait_s, WITHOUT_STREAM_S)

    async def _listen(self) -> None:
        """Open a stream; the last one, which was told to stop, ends first."""
        if self._listening is not None:
            await asyncio.wait({self._listening}, timeout=self._line.outbox.timeout_s)
        self._open.clear()
        self._stop.clear()
        self._listening = asyncio.ensure_future(self._hear())
        opened = asyncio.ensure_future(self._open.wait())
        try:
            await asyncio.wait({self._listening, opened}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()

    async def _hear(self) -> None:
        try:
            async with await self._watch(self._pipeline, max_await_time_ms=_ANSWER_WITHIN_MS) as stream:
                self._open.set()
                while not self._stop.is_set():
                    if await stream.try_next() is not None:
                        self._looked.clear()
                        self._line.bell.set()
                        await self._looked.wait()  # one ring is enough until somebody has looked
        except PyMongoError:
            self.streams = False  # whether the connection is well, the calls of the session say
        finally:
            self._line.bell.set()
