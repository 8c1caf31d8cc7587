"""What the tests of SQS and SNS share: handoffs, reading back, a lossy way to a server, and servers of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
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
from servers.ports import HOST
from servers.server import Launch, connection
from servers.state import Place
from tests.brokers.opened import owning
from tests.own_server import OwnServer

LANE = Lane("shop")


def made(
    url: str, *, create: bool = True, timeout_s: float = 20.0, form: Format | None = None, **settings: object
) -> Broker:
    """A broker. A batch has time enough on a busy machine."""
    given = {"publish_s": timeout_s} | settings
    options = BrokerOptions(url=url, source="/shop", create=create, timeout_s=timeout_s, settings=given, form=form)
    broker: Broker = plugins.load("broker", url.partition(":")[0]).broker(options)
    return broker


def owner(url: str, **options: Any) -> AbstractAsyncContextManager[Handoff]:
    """The right to publish."""
    return owning(made(url, **options), LANE)


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


class _Strict(Moto):
    """It looks at credentials, and so does not answer those who have none: it is up when it listens."""

    def launches(self, place: Place) -> list[Launch]:
        return [Launch(one.argv, {"INITIAL_NO_AUTH_ACTION_COUNT": "0"}) for one in super().launches(place)]

    def answers(self, place: Place) -> bool:
        with connection(place.ports["client"]):
            return True


class OwnMoto(OwnServer):
    """An SNS with an SQS that a test may pause, kill and start again; then it has forgotten everything."""

    def __init__(self, folder: Path, *, strict: bool = False) -> None:
        super().__init__(_Strict() if strict else Moto(), folder)

    def url(self, service: str) -> str:
        """Its address, as that of one of its services."""
        return f"{service}://eu-west-1/?endpoint=http://{HOST}:{self.port}"
