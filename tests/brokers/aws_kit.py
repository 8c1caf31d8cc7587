"""What the tests of SQS and SNS share: handoffs, reading back, a lossy way to a server, and servers of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fencepost import plugins
from fencepost.envelope import Format
from fencepost.ports import Broker, BrokerOptions, Handoff, Lane
from fencepost.testing.harness import Seen
from fencepost.testing.readers.sqs import client, seen_in, taken
from servers.moto import Moto
from servers.ports import pick
from servers.server import connection
from servers.state import Place
from tests.brokers.nats_kit import term

LANE = Lane("shop")


def made(
    url: str, *, create: bool = True, timeout_s: float = 20.0, form: Format | None = None, **settings: object
) -> Broker:
    """A broker. A batch has time enough on a busy machine."""
    given = {"publish_s": timeout_s} | settings
    options = BrokerOptions(url=url, source="/shop", create=create, timeout_s=timeout_s, settings=given, form=form)
    broker: Broker = plugins.load("broker", url.partition(":")[0]).broker(options)
    return broker


@asynccontextmanager
async def owner(url: str, **options: Any) -> AsyncIterator[Handoff]:
    """The right to publish."""
    broker = made(url, **options)
    try:
        yield await broker.take_over(LANE, term())
    finally:
        await broker.close()


@dataclass(frozen=True)
class Queues:
    """An ordinary client of the queues at an address, which may be that of an SNS: moto has both."""

    url: str

    def make(self, name: str, **attributes: str) -> str:
        """Make a queue as somebody else would; its URL."""
        with self._client() as sqs:
            return str(sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def messages(self, name: str) -> list[dict[str, Any]]:
        """Take everything from a queue."""
        with self._client() as sqs:
            return taken(sqs, sqs.get_queue_url(QueueName=name)["QueueUrl"], 0)

    def read(self, name: str) -> list[Seen]:
        """The same as the rules compare it."""
        return [seen_in(name, message) for message in self.messages(name)]

    def names(self, prefix: str) -> list[str]:
        """The names of all queues that begin so."""
        with self._client() as sqs:
            found = sqs.list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])
        return sorted(url.rpartition("/")[2] for url in found)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        sqs = client("sqs", self.url)
        try:
            yield sqs
        finally:
            sqs.close()


def endpoint(url: str) -> str:
    """The endpoint in a broker's URL."""
    return parse_qs(urlsplit(url).query)["endpoint"][0]


class Lossy:
    """A way to a server that lets requests pass, and cuts the connection instead of the answer while it ``loses``."""

    def __init__(self, url: str) -> None:
        self._to = urlsplit(endpoint(url))
        self._scheme = urlsplit(url).scheme
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.loses = False
        self.lost = 0

    @property
    def url(self) -> str:
        """The address of the broker this way."""
        return f"{self._scheme}://eu-west-1/?endpoint=http://127.0.0.1:{self.port}"

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(self._to.hostname, self._to.port)
        copies = [asyncio.ensure_future(_copy(reader, forth)), asyncio.ensure_future(self._answers(back, writer))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.transport.abort()
            forth.transport.abort()
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self.loses:
                self.lost += 1
                return
            writer.write(data)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # sockets that were aborted are closed by the loop


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)


@asynccontextmanager
async def lossy(url: str) -> AsyncIterator[Lossy]:
    """A lossy way to the server of a URL."""
    way = Lossy(url)
    server = await asyncio.start_server(way.accept, "127.0.0.1", 0)
    way.port = server.sockets[0].getsockname()[1]
    try:
        yield way
    finally:
        server.close()
        await way.close()


class OwnMoto:
    """An SNS with an SQS that a test may pause, kill and start again; then it has forgotten everything."""

    def __init__(self, folder: Path) -> None:
        self._server = Moto()
        self.place = Place(folder, {"client": pick([])})
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, service: str) -> str:
        """Its address, as that of one of its services."""
        return f"{service}://eu-west-1/?endpoint=http://127.0.0.1:{self.place.ports['client']}"

    def start(self, env: Mapping[str, str] | None = None) -> None:
        """Start it and wait until it answers; where it has an environment of its own, until it listens."""
        (launch,) = self._server.launches(self.place)
        with self.place.log.open("ab") as log:
            self._process = subprocess.Popen(
                launch.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(env or {})}
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with connection(self.place.ports["client"]):
                    pass
                if env or self._server.answers(self.place):
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"moto does not start, see {self.place.log}")

    def kill(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It does nothing for as long as the block lasts."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)
