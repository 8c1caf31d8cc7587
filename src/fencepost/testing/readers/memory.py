"""A reader of a broker in memory."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.brokers import memory
from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen
from fencepost.testing.readers.cloudevents import seen


class MemoryReader:
    """``fencepost.testing.harness.Reader`` says what each call promises."""

    def __init__(self, server: memory.MemoryServer) -> None:
        self._server = server

    async def read(self, topic: str) -> Sequence[Seen]:
        return [seen(topic, d.payload, d.headers, prefix="ce_") for d in self._server.published(topic)]

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(payload=bytes(memory.MESSAGE_BYTES_MAX + 1))

    async def close(self) -> None:
        memory.forget(self._server.url)


def reader(options: BrokerOptions) -> MemoryReader:
    """The reader of one server."""
    return MemoryReader(memory.server(options.url))
