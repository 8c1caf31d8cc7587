"""Whether the broker answers, for who must know it also while nothing is published."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fencepost.app import build
from fencepost.clock import Clock
from fencepost.config import Config, scrubber
from fencepost.errors import FencepostError

EVERY_S = 5.0
"""An answer counts for so long: somebody may ask many times in a second."""
TIMEOUT_S = 2.0


class BrokerQuestion:
    """Asks on a connection of its own, which does not outlast the answer."""

    def __init__(self, config: Config, clock: Clock) -> None:
        section = replace(config.broker, timeout_s=min(config.broker.timeout_s, TIMEOUT_S))
        self._config, self._clock = replace(config, broker=section), clock
        self._scrub = scrubber(config)
        self._asking = asyncio.Lock()
        self._trouble = ""
        self._asked_s: float | None = None

    async def trouble(self) -> str:
        """What keeps the broker from being used, without secrets; "" where nothing does. At most ``EVERY_S`` old."""
        async with self._asking:
            if self._asked_s is None or self._clock.monotonic() - self._asked_s >= EVERY_S:
                self._trouble = await self._ask()
                self._asked_s = self._clock.monotonic()
            return self._trouble

    async def _ask(self) -> str:
        broker = build.broker(self._config, self._clock)
        try:
            await broker.open()
        except FencepostError as error:
            return self._scrub(str(error))
        finally:
            await broker.close()
        return ""
