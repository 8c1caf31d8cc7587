"""A TCP proxy that can fall silent, cut its connections or stop: a network that does what networks do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress


class Proxy:
    """``silent`` keeps what it is given to itself, in both directions, and accepts new connections all the same.

    ``changed`` may make something else of what it carries.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.silent = False
        self.changed: Callable[[bytes], bytes] = bytes

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        self._writers.add(there_writer)
        for source, sink in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.ensure_future(self._carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                while self.silent:
                    await asyncio.sleep(0.01)
                sink.write(self.changed(data))
                await sink.drain()
        sink.close()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def proxy(host: str, port: int) -> AsyncIterator[Proxy]:
    """A proxy on a free port of the loopback address."""
    made = Proxy(host, port)
    server = await asyncio.start_server(made.accept, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.stop()
        await server.wait_closed()
