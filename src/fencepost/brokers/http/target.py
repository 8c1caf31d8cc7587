"""One target: a few connections at a time, each key in order, and a circuit of its own.

In trouble nothing is sent to it for a while; then one message tries it, and only when that was taken do the others
follow. So a target that is down or hangs costs the others one message's time, now and then.

A target that takes other messages of a batch is in no trouble: what it fails on is that message's own failure.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import httpx

from fencepost import handoffs
from fencepost.brokers.http.answers import Trouble, as_one_message, judged
from fencepost.brokers.http.encode import Encoder
from fencepost.brokers.http.faults import LIBRARY, SILENT, from_library
from fencepost.brokers.http.routes import shown
from fencepost.clock import Clock
from fencepost.errors import DeadlineExceeded, FixError, ParkError, RetryError
from fencepost.message import Stored
from fencepost.ports import Failure

PAUSE_BASE_S = 0.5
PAUSE_CAP_S = 30.0
_DOUBLINGS_MAX = 16
_ANSWER_BYTES_MAX = 65_536
_ANSWER_S = 0.2
"""How much of an answer's body is read, and how long: only so that the connection can be used again."""

_CONNECT_SHARE = 0.9
"""Of the time that is left for a request, the most that connecting may take."""

Chain = deque[Stored]
"""Messages of one key, in order."""


class Progress(handoffs.Progress):
    """``held`` are the messages, first of their key, whose target is in trouble."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Failure] = []


@dataclass(frozen=True, slots=True)
class Pace:
    """Moments of the event loop's clock: no request begins after one, or lasts longer than the other."""

    begin_until: float
    end: float


@dataclass(slots=True)
class _Attempt:
    """One batch at one target. ``answered`` counts messages that were taken or refused for their own sake."""

    waiting: deque[Chain]
    answered: int = 0
    troubles: list[tuple[Stored, Trouble]] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Nothing more is to be begun."""
        return any(trouble.busy for _, trouble in self.troubles)


class Target:
    """Sends messages to one URL. ``paused``: after trouble it is left alone for a while, longer each time; otherwise
    only for as long as it asks.
    """

    def __init__(
        self,
        url: str,
        pool: httpx.AsyncHTTPTransport,
        encoder: Encoder,
        clock: Clock,
        *,
        connections: int,
        paused: bool,
    ) -> None:
        self.url, self.name = url, shown(url)
        self._pool, self._encoder, self._clock = pool, encoder, clock
        self._connections, self._paused = connections, paused
        self._slots = asyncio.Semaphore(connections)
        self._trouble: RetryError | FixError | None = None
        self._failures = 0
        self._again_at = 0.0
        self._suspects: set[str] = set()
        self._calls = 0
        self._called_at = clock.monotonic()

    def is_idle(self, for_s: float) -> bool:
        """Nothing has been under way for so long, and nothing is known of it that would be missed."""
        is_well = self._trouble is None and not self._suspects
        return is_well and not self._calls and self._clock.monotonic() - self._called_at >= for_s

    async def close(self) -> None:
        """Close its connections."""
        await self._pool.aclose()

    async def send(self, chains: Iterable[Chain], progress: Progress, pace: Pace) -> None:
        """Send as much as may be sent at that pace. What is in no part of ``progress`` afterwards was not sent."""
        self._calls += 1
        try:
            await self._send(_Attempt(deque(sorted(chains, key=self._is_suspect))), progress, pace)
        finally:
            self._calls -= 1
            self._called_at = self._clock.monotonic()

    async def _send(self, attempt: _Attempt, progress: Progress, pace: Pace) -> None:
        if self._trouble is None or self._clock.monotonic() >= self._again_at:
            if self._trouble is not None:
                await self._work(attempt, progress, pace, most=1)
            if not attempt.troubles:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self._connections, len(attempt.waiting))):
                        group.create_task(self._work(attempt, progress, pace))
            self._judge(attempt, progress)
        if self._trouble is not None:
            left_s = max(0.0, self._again_at - self._clock.monotonic())
            # A new error: one that is raised again and again would remember each time.
            error = type(self._trouble)(self._trouble.what, remedy=self._trouble.remedy)
            held = [message for message, _ in attempt.troubles] + [chain[0] for chain in attempt.waiting]
            progress.held += [Failure(message, error, whole_topic=True, pause_s=left_s) for message in held]

    def _is_suspect(self, chain: Chain) -> bool:
        """Whether it failed last time: then others come first, and show whether the target or the message is ill."""
        return chain[0].id in self._suspects

    async def _work(self, attempt: _Attempt, progress: Progress, pace: Pace, most: int | None = None) -> None:
        """Send one message after the other, until the first trouble."""
        loop, left = asyncio.get_running_loop(), most
        async with self._slots:
            while attempt.waiting and left != 0 and not attempt.is_over and loop.time() < pace.begin_until:
                chain = attempt.waiting.popleft()
                try:
                    if not await self._one(chain, attempt, progress, pace):
                        return
                finally:
                    if chain:
                        attempt.waiting.appendleft(chain)
                left = None if left is None else left - 1

    async def _one(self, chain: Chain, attempt: _Attempt, progress: Progress, pace: Pace) -> bool:
        """Send the first message of a chain. Where it is not taken, the rest of the chain is not sent. False after
        trouble.
        """
        message = chain[0]
        try:
            verdict = await self._post(self._encoder.request(message, self.url), pace)
            attempt.answered += not isinstance(verdict, Trouble)
        except ParkError as error:
            verdict = error
        if verdict is None:
            progress.published.add(message.position)
            chain.popleft()
            return True
        chain.clear()
        if isinstance(verdict, Trouble):
            attempt.troubles.append((message, verdict))
            return False
        progress.failed.append(Failure(message, verdict))
        return True

    async def _post(self, request: httpx.Request, pace: Pace) -> ParkError | Trouble | None:
        left_s = pace.end - asyncio.get_running_loop().time()
        # Cancelled in the middle of a TLS handshake, the library would leave the socket open.
        request.extensions["timeout"] = {"connect": left_s * _CONNECT_SHARE}
        try:
            async with asyncio.timeout_at(pace.end):
                response = await self._pool.handle_async_request(request)
        except TimeoutError:
            return Trouble(DeadlineExceeded(f"{self.name}: no answer in time", remedy=SILENT))
        except LIBRARY as error:
            fault = from_library(error, self.name)
            if isinstance(fault, ParkError):
                raise fault from error
            return Trouble(fault)
        await _finish(response)
        return judged(response.status_code, response.headers.get("retry-after"), self.name, self._clock.now())

    def _judge(self, attempt: _Attempt, progress: Progress) -> None:
        """Whether the target is in trouble, or some messages are."""
        if attempt.answered:
            self._trouble, self._failures = None, 0
        self._suspects = {message.id for message, _ in attempt.troubles}
        if attempt.troubles and (not attempt.answered or attempt.is_over):
            self._fall(max((trouble for _, trouble in attempt.troubles), key=lambda t: (t.busy, t.pause_s)))
        else:
            progress.failed += [Failure(message, as_one_message(t.error)) for message, t in attempt.troubles]
            attempt.troubles.clear()

    def _fall(self, trouble: Trouble) -> None:
        self._failures += 1
        pause_s = PAUSE_CAP_S
        if isinstance(trouble.error, RetryError):
            pause_s = min(pause_s, PAUSE_BASE_S * 2.0 ** min(self._failures - 1, _DOUBLINGS_MAX))
            pause_s *= 0.5 + 0.5 * self._clock.random()
        self._trouble = trouble.error
        self._again_at = self._clock.monotonic() + max(trouble.pause_s, pause_s if self._paused else 0.0)


async def _finish(response: httpx.Response) -> None:
    """Read the rest of an answer, if it is short. What it says does not matter, so neither does what goes wrong."""
    size = 0
    try:
        async with asyncio.timeout(_ANSWER_S):
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > _ANSWER_BYTES_MAX:
                    break
    except (TimeoutError, *LIBRARY):
        pass  # the status, which is all that is asked for, has come
    finally:
        await response.aclose()
