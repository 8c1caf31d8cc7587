"""A proxy in front of Kafka that can keep the answers back: from now on, or from a certain request on.

Kafka tells its clients where it is; the proxy writes its own port over that (the length stays the same).
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

HOST = "127.0.0.1"
PRODUCE, END_TRANSACTION = 0, 26
"""Numbers of requests in Kafka's protocol."""


class Proxy:
    """``silent_after``: the number of a request after which no answer passes any more; it still reaches Kafka."""

    def __init__(self, kafka_url: str) -> None:
        host, port = kafka_url.removeprefix("kafka://").split(":")
        assert host == HOST, f"the proxy needs a Kafka that calls itself {HOST}"
        self._port = int(port)
        self._own_port = 0
        self._answering = asyncio.Event()
        self._answering.set()
        self._copies: set[asyncio.Task[None]] = set()
        self.silent_after: int | None = None

    @property
    def url(self) -> str:
        return f"kafka://{HOST}:{self._own_port}"

    def be_silent(self) -> None:
        self._answering.clear()

    @property
    def is_silent(self) -> bool:
        return not self._answering.is_set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kafka_reader, kafka_writer = await asyncio.open_connection(HOST, self._port)
        for copy in (self._requests(reader, kafka_writer), self._answers(kafka_reader, writer)):
            task = asyncio.ensure_future(copy)
            self._copies.add(task)
            task.add_done_callback(self._copies.discard)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _closing(writer):
            while True:
                frame = await _frame(reader)
                if int.from_bytes(frame[4:6], "big") == self.silent_after:
                    self.be_silent()
                writer.write(frame)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        real, own = (HOST.encode() + struct.pack(">i", port) for port in (self._port, self._own_port))
        async with _closing(writer):
            while True:
                frame = await _frame(reader)
                await self._answering.wait()
                writer.write(frame.replace(real, own))

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self.accept, HOST, 0)
        self._own_port = server.sockets[0].getsockname()[1]
        return server

    async def stop(self) -> None:
        for copy in list(self._copies):
            copy.cancel()
        await asyncio.gather(*self._copies, return_exceptions=True)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """One request or answer with its length before it."""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length, "big"))


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close one side when the other has closed."""
    try:
        with suppress(OSError, asyncio.IncompleteReadError):
            yield
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def proxied(kafka_url: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(kafka_url)
    server = await proxy.serve()
    try:
        yield proxy
    finally:
        server.close()
        await proxy.stop()
