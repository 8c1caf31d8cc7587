"""A relay beside an application, in its event loop: started on entering, drained and handed over on leaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fencepost.app.asking import BrokerQuestion
from fencepost.app.build import relay
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.config import Config
from fencepost.events import CircuitOpened, Event, Observer, RelayStarted, ignore
from fencepost.relay import Relay

DRAIN_S = 10.0


class Running:
    """A relay at work. ``circuit`` says whether it gets on; ``ended`` is True where it has given up, ``error`` why.
    ``trouble()`` is all of it in one line, for a health check.
    """

    def __init__(self, relay: Relay, question: BrokerQuestion) -> None:
        self._relay = relay
        self._task = asyncio.ensure_future(relay.run())
        self._question = question
        self.circuit = relay.circuit

    @property
    def ended(self) -> bool:
        """Whether it works no more."""
        return self._task.done()

    @property
    def error(self) -> BaseException | None:
        """Why it works no more; None while it works, and where it was stopped."""
        return self._task.exception() if self._task.done() and not self._task.cancelled() else None

    async def trouble(self) -> str:
        """Why messages do not get through now; "" where they do.

        A relay that has nothing to publish, or that stands by, does not notice that the broker is down. So the broker
        is asked, for at most 2 seconds, where the last answer is older than 5 seconds.
        """
        if self.ended:
            return f"the relay has ended: {self.error or 'it was stopped'}"
        if (cause := self._relay.cause) is not None:
            return f"the relay cannot go on: {cause}"
        trouble = await self._question.trouble()
        return trouble and f"the broker cannot be used: {trouble}"

    async def _until(self, verdict: asyncio.Event) -> None:
        waiting = asyncio.ensure_future(verdict.wait())
        try:
            await asyncio.wait([self._task, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._task.done():
            await self._task

    async def _finish(self, drain_s: float) -> None:
        done, _ = await asyncio.wait([self._task], timeout=drain_s)
        if not done:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def relaying(
    config: Config, observer: Observer = ignore, *, drain_s: float = DRAIN_S, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[Running]:
    """Run the relay of a configuration for as long as the context lasts.

    Entering returns when every server was reached, or when one cannot be reached now: the relay goes on trying, the
    application need not wait. Raises FixError for what a person must change. Leaving publishes and settles what is in
    hand, for at most ``drain_s`` seconds, and releases the lease.
    """
    verdict = asyncio.Event()

    def observe(event: Event) -> None:
        if isinstance(event, RelayStarted | CircuitOpened):
            verdict.set()
        observer(event)

    service = relay(config, observe, clock)
    running = Running(service, BrokerQuestion(config, clock))
    try:
        await running._until(verdict)
        yield running
    finally:
        service.stop()
        await running._finish(drain_s)
