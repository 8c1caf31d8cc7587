"""The topic of a run at a broker plug-in of somebody else's, read back by the reader that its rules use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from fencepost.clock import Clock
from fencepost.demo.readers import OnEntry, beside, entry
from fencepost.history import Entry
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Expecting, reader_factory

_LOOK_S = 0.5


class OwnStage:
    """See fencepost.demo.readers.Stage. ``module`` has ``reader(options)``. What was published stays there."""

    def __init__(self, module: str, clock: Clock, options: BrokerOptions, topic: str) -> None:
        """Raises ConfigurationError where there is no such reader."""
        self._reader, self._topic, self._clock = reader_factory(module)(options), topic, clock

    @property
    def settings(self) -> Mapping[str, object]:
        """See Stage."""
        return {}

    async def create(self) -> None:
        """See Stage. The relays make what is missing."""
        if isinstance(self._reader, Expecting):
            self._reader.expect(self._topic)

    def following(self, on_entry: OnEntry) -> AbstractAsyncContextManager[None]:
        """See Stage."""
        return beside(self._follow(on_entry))

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """See Stage: one partition, since a reader tells everything in the order of each key."""
        return [[entry(seen.attributes, "") for seen in await self._reader.read(self._topic)]]

    async def drop(self) -> None:
        """See Stage."""
        await self._reader.close()

    async def _follow(self, on_entry: OnEntry) -> None:
        told = 0
        while True:
            found = await self._reader.read(self._topic)
            for seen in found[told:]:
                on_entry(entry(seen.attributes, ""))
            told = len(found)
            await self._clock.sleep(_LOOK_S)
