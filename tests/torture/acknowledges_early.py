"""A broken broker plug-in: a batch counts as published before it is sent, and every third one does not get that far.

fencepost torture --broker tests.torture.acknowledges_early+nats://host:4222
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fencepost.message import Stored
from fencepost.ports import BrokerOptions, Outcome
from tests.torture.loses_answers import LosesAnswers, Wrapped, real


def broker(options: BrokerOptions) -> Any:
    """As every plug-in has it."""
    return Wrapped(real(options), _Hasty)


class _Hasty(LosesAnswers):
    _sending: asyncio.Task[Outcome] | None = None

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        if self._sending is not None:
            await self._sending
        self._sending = asyncio.create_task(self._send(batch))
        return Outcome(batch)

    async def _send(self, batch: Sequence[Stored]) -> Outcome:
        self.lose()
        return await self._real.publish(batch)

    async def close(self) -> None:
        if self._sending is not None:
            await asyncio.wait([self._sending])
        await self._real.close()
