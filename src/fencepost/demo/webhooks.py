"""A consumer of webhooks: an HTTP server in the event loop of whoever makes it, at the address of a URL."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

_HEAD_BYTES_MAX = 100_000
_REASONS = {204: b"No Content", 413: b"Content Too Large"}

Headers = list[tuple[str, str]]
Take = Callable[[Headers, bytes], int]
"""What becomes of a request with these headers, as they were sent, and this body; the status of the answer."""


class Receiver:
    """Listens from the moment it is made. Raises OSError where the address is in use."""

    def __init__(self, url: str, take: Take) -> None:
        parts = urlsplit(url)
        self._take = take
        self._socket = socket.create_server((parts.hostname or "", parts.port or 80), backlog=128)
        self._connections: set[asyncio.Task[None]] = set()
        self._serving = asyncio.ensure_future(self._serve())

    async def close(self) -> None:
        """End every connection."""
        tasks = [self._serving, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._begin, sock=self._socket, limit=_HEAD_BYTES_MAX)
        async with server:
            await server.serve_forever()

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._answer(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Every request of one connection."""
        try:
            while True:
                headers = _headers(await reader.readuntil(b"\r\n\r\n"))
                lengths = [int(value) for name, value in headers if name.lower() == "content-length"]
                status = self._take(headers, await reader.readexactly(sum(lengths)))
                length = b"" if status == 204 else b"content-length: 0\r\n"
                writer.write(b"HTTP/1.1 %d %b\r\n%b\r\n" % (status, _REASONS.get(status, b"Said"), length))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side has closed
        finally:
            writer.transport.abort()


def _headers(head: bytes) -> Headers:
    pairs = [line.partition(":") for line in head.decode().split("\r\n")[1:-2]]
    return [(name, value.strip(" \t")) for name, _, value in pairs]
