"""The demonstration's topic as webhooks: the demonstration itself is the consumer, at the address of the URL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import unquote

from fencepost.demo.readers import OnEntry, Taken, entry
from fencepost.demo.webhooks import Headers, Receiver
from fencepost.errors import ConfigurationError
from fencepost.history import Entry
from fencepost.ports import BrokerOptions

_PREFIX = "ce-"


class HttpStage:
    """See Stage."""

    def __init__(self, options: BrokerOptions) -> None:
        self._url = options.url
        self._taken = Taken()
        self._receiver: Receiver | None = None

    @property
    def settings(self) -> Mapping[str, object]:
        """See Stage."""
        return {}

    async def create(self) -> None:
        """See Stage: begin to listen."""
        try:
            self._receiver = Receiver(self._url, self._take)
        except OSError as error:
            raise ConfigurationError(
                f"the consumer of the webhooks cannot listen there: {error.strerror or error}",
                remedy="give an address of this machine that is free, such as http://127.0.0.1:8099/",
            ) from error

    @asynccontextmanager
    async def following(self, on_entry: OnEntry) -> AsyncIterator[None]:
        """See Stage."""
        with self._taken.following(on_entry):
            yield

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """See Stage."""
        return self._taken.partitions()

    async def drop(self) -> None:
        """See Stage."""
        if self._receiver is not None:
            await self._receiver.close()

    def _take(self, headers: Headers, _: bytes) -> int:
        attributes = {name: unquote(value) for name, value in headers if name.startswith(_PREFIX)}
        self._taken.add(entry(attributes, _PREFIX))
        return 204
