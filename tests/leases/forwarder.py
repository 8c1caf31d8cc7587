"""A network between a client and a server that a test can stop, cut, or let lie as a connection pooler does."""

import asyncio
import contextlib
from urllib.parse import urlsplit, urlunsplit


class Forwarder:
    """Forwards every connection to the server of a URL. ``url`` is the same one through it."""

    def __init__(self, url: str, *, greet_as_pid: int | None = None) -> None:
        self._parts = urlsplit(url)
        self._greet_as_pid = greet_as_pid
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    async def __aenter__(self) -> "Forwarder":
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        user = f"{self._parts.username}@" if self._parts.username else ""
        self.url = urlunsplit(self._parts._replace(netloc=f"{user}127.0.0.1:{port}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()

    def stop(self) -> None:
        """Let nothing through any more; connections stay open, new ones are accepted."""
        self._open.clear()

    def go_on(self) -> None:
        """Let everything through, also what was kept back."""
        self._open.set()

    async def cut(self) -> None:
        """End every connection."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # so that the other ends notice

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        ways = [asyncio.ensure_future(self._pump(*way)) for way in ((reader, there, False), (back, writer, True))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there.transport.abort()
            for way in ways:
                way.cancel()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(self._disguised(data) if from_server and self._greet_as_pid is not None else data)
                await writer.drain()

    def _disguised(self, data: bytes) -> bytes:
        """BackendKeyData (12 bytes: K, its length, the process, a secret) with another process's number."""
        at = data.find(b"K\x00\x00\x00\x0c")
        if at < 0 or self._greet_as_pid is None:
            return data
        return data[: at + 5] + self._greet_as_pid.to_bytes(4, "big") + data[at + 9 :]
