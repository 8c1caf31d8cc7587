"""The demonstration's topic as a file of JSON lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from fencepost.brokers.file.address import Address
from fencepost.clock import Clock
from fencepost.demo.readers import OnEntry, beside, entry
from fencepost.errors import ConfigurationError
from fencepost.history import Entry
from fencepost.ports import BrokerOptions

_LOOK_S = 0.1


class FileStage:
    """See Stage."""

    def __init__(self, options: BrokerOptions, topic: str, clock: Clock) -> None:
        address = Address.of(options.url)
        if address.is_stdout:
            raise ConfigurationError("standard output cannot be read back", remedy="write file:///folder/{topic}.jsonl")
        self._file, self._topic, self._clock = Path(address.path(topic)), topic, clock

    @property
    def settings(self) -> Mapping[str, object]:
        """See Stage."""
        return {}

    async def create(self) -> None:
        """See Stage. The relays make the file."""

    def following(self, on_entry: OnEntry) -> AbstractAsyncContextManager[None]:
        """See Stage."""
        return beside(self._follow(on_entry))

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """See Stage. A line that is no JSON was left by somebody who died."""
        return [await asyncio.to_thread(self._read)]

    async def drop(self) -> None:
        """See Stage."""
        await asyncio.to_thread(self._file.unlink, missing_ok=True)

    async def _follow(self, on_entry: OnEntry) -> None:
        told = 0
        while True:
            found = await asyncio.to_thread(self._read)
            for one in found[told:]:
                on_entry(one)
            told = len(found)
            await self._clock.sleep(_LOOK_S)

    def _read(self) -> list[Entry]:
        lines = self._file.read_bytes().split(b"\n")[:-1] if self._file.exists() else []
        return [entry(event, "") for line in lines if (event := _event(line)).get("topic") == self._topic]


def _event(line: bytes) -> dict[str, str]:
    try:
        event: dict[str, str] = json.loads(line)
    except ValueError:  # a line that is being written, or somebody else's
        return {}
    return event
