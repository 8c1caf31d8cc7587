"""A consumer of webhooks as a real HTTP server, which a test tells what to do: answer, hang, reset, be slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from fencepost.brokers.http import broker
from fencepost.clock import SYSTEM_CLOCK
from fencepost.envelope import Format
from fencepost.ports import BrokerOptions, Handoff, Lane
from tests.brokers.opened import owning
from tests.services import free_port

HANG = object()
RESET = object()
GARBAGE = object()
ENDLESS = object()

Answer = int | tuple[int, dict[str, str]] | object


@dataclass(frozen=True, slots=True)
class Request:
    """What was sent. Names of headers are in small letters."""

    target: str
    headers: dict[str, str]
    body: bytes
    at_s: float

    @property
    def id(self) -> str:
        return self.headers["idempotency-key"]


@dataclass
class Consumer:
    """The server. ``says`` gives the answer to a request; ``delay_s`` comes before each.
    ``taken`` were answered 2xx.
    """

    port: int
    says: Callable[[Request], Answer] = lambda _: 204
    delay_s: float = 0.0
    requests: list[Request] = field(default_factory=list)
    taken: list[Request] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ids(self) -> list[str]:
        return [request.id for request in self.taken]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client hung up, as some tests want it to
        finally:
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        body = await reader.readexactly(int(headers["content-length"]))
        request = Request(line.split(" ")[1], headers, body, SYSTEM_CLOCK.monotonic())
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(self.delay_s)
            return await self._answer(request, self.says(request), writer)
        finally:
            self.under_way -= 1

    async def _answer(self, request: Request, answer: Answer, writer: asyncio.StreamWriter) -> bool:
        if answer is HANG:
            await asyncio.sleep(60)
        if answer is RESET or answer is HANG:
            return False
        if answer is GARBAGE:
            writer.write(b"220 mail.example ESMTP\r\n")
            await writer.drain()
            return False
        if answer is ENDLESS:
            self.taken.append(request)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(b"x" * 10_000)
                await writer.drain()
        status, more = answer if isinstance(answer, tuple) else (answer, {})
        assert isinstance(status, int)
        if 200 <= status < 300:
            self.taken.append(request)
        lines = "".join(f"{name}: {value}\r\n" for name, value in more.items())
        writer.write(f"HTTP/1.1 {status} Said\r\n{lines}content-length: 0\r\n\r\n".encode())
        await writer.drain()
        return True


@asynccontextmanager
async def consumer(says: Callable[[Request], Answer] = lambda _: 204, port: int = 0) -> AsyncIterator[Consumer]:
    """A consumer that listens while the block lasts. Its connections are reset at the end."""
    made = Consumer(port or free_port(), says)
    tasks: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(made.serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", made.port)
    try:
        yield made
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def owner(url: str, form: Format | None = None, **settings: object) -> AbstractAsyncContextManager[Handoff]:
    """A handoff to the targets of a URL."""
    return owning(broker(BrokerOptions(url=url, source="/shop", settings=settings, form=form)), Lane("shop"))
