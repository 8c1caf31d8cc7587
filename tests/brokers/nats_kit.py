"""What the tests of the NATS broker share: brokers, reading back, and servers of their own."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client

from fencepost.brokers.nats import broker
from fencepost.ports import Broker, BrokerOptions, Handoff, Lane
from fencepost.receipt import Receipt
from servers.nats import FOLDERS, Nats
from servers.ports import HOST
from servers.server import Launch, connection, need_program
from servers.state import Place as ServerPlace
from tests.brokers.opened import opened, owning
from tests.own_server import OwnServer

NO_MESSAGE = 10037


@dataclass(frozen=True)
class Found:
    """A message as the stream has it."""

    sequence: int
    subject: str
    headers: dict[str, str]
    body: bytes

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> Found:
        """From the server's answer."""
        lines = base64.b64decode(message.get("hdrs", "")).decode().split("\r\n")[1:-2]
        headers = [line.split(": ", 1) for line in lines]
        assert len(dict(headers)) == len(headers), f"a header comes twice: {lines}"
        return cls(message["seq"], message["subject"], dict(headers), base64.b64decode(message.get("data", "")))


@asynccontextmanager
async def made(url: str, name: str, **config: Any) -> AsyncIterator[Place]:
    """A place of its own. Its stream is made with ``config``, or by the broker where nothing is given."""
    found = Place(url, name)
    if config:
        await found.make(**config)
    yield found
    await found.drop()


@dataclass
class Place:
    """A stream of its own on a server: its name is also the first token of its subjects and the relay's name."""

    url: str
    name: str
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def lane(self) -> Lane:
        """The only lane of the relay."""
        return Lane(self.name)

    @property
    def receipts(self) -> str:
        """The subject of the lane's receipts."""
        return f"fencepost.receipt.{self.lane.name}"

    def broker(self, *, create: bool = True, timeout_s: float = 20.0, **settings: object) -> Broker:
        """A broker for this place."""
        given: Mapping[str, object] = (
            {"stream": self.name, "subject_prefix": f"{self.name}."} | self.settings | settings
        )
        return broker(BrokerOptions(url=self.url, source="/shop", create=create, timeout_s=timeout_s, settings=given))

    def opened(self, **options: Any) -> AbstractAsyncContextManager[Broker]:
        """A broker that is open."""
        return opened(self.broker(**options))

    def handoff(self, token: int = 1, **options: Any) -> AbstractAsyncContextManager[Handoff]:
        """The right to publish, on a connection of its own."""
        return owning(self.broker(**options), self.lane, token)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """An ordinary client."""
        client = await nats.connect(self.url)
        try:
            yield client
        finally:
            await client.close()

    async def stored(self) -> list[Found]:
        """Every message of the stream, oldest first."""
        async with self.client() as client:
            found: list[Found] = []
            while True:
                question = json.dumps({"seq": found[-1].sequence + 1 if found else 1, "next_by_subj": ">"}).encode()
                answer = await client.request(f"$JS.API.STREAM.MSG.GET.{self.name}", question, timeout=10)
                given = json.loads(answer.data)
                if error := given.get("error"):
                    assert error["err_code"] == NO_MESSAGE, f"after {len(found)} messages: {error}"
                    return found
                found.append(Found.of(given["message"]))

    async def published(self) -> list[Found]:
        """The messages that are no receipts."""
        return [m for m in await self.stored() if m.subject != self.receipts]

    async def payloads(self) -> list[bytes]:
        """Their payloads."""
        return [m.body for m in await self.published()]

    async def kept(self) -> list[Receipt]:
        """The lane's receipts, oldest first."""
        return [Receipt.decode(m.body) for m in await self.stored() if m.subject == self.receipts]

    async def make(self, **config: Any) -> None:
        """Create the stream as somebody else would."""
        subjects = [f"{self.name}.>", f"fencepost.receipt.{self.name}.>"]
        async with self.client() as client:
            await client.jsm().add_stream(**({"name": self.name, "subjects": subjects} | config))

    async def change(self, **config: Any) -> None:
        """Change the stream's configuration."""
        async with self.client() as client:
            jsm = client.jsm()
            await jsm.update_stream((await jsm.stream_info(self.name)).config, **config)

    async def config(self) -> Any:
        """The stream's configuration."""
        async with self.client() as client:
            return (await client.jsm().stream_info(self.name)).config

    async def drop(self) -> None:
        """Delete the stream, where there is one."""
        async with self.client() as client:
            try:
                await client.jsm().delete_stream(self.name)
            except nats.js.errors.NotFoundError:
                return


class _Configured(Nats):
    """With settings of a test's own. It need not have JetStream to answer: it is up when it listens."""

    def __init__(self, config: str, jetstream: bool) -> None:
        self._config, self._jetstream = config, jetstream

    def prepare(self, place: ServerPlace) -> None:
        (place.folder / "server.conf").write_text(self._config)

    def launches(self, place: ServerPlace) -> list[Launch]:
        program = need_program("nats-server", FOLDERS)
        address = ["-c", str(place.folder / "server.conf"), "-a", HOST, "-p", str(place.ports["client"])]
        return [Launch([program, *address, *(["-js", "-sd", str(place.folder / "data")] if self._jetstream else [])])]

    def answers(self, place: ServerPlace) -> bool:
        with connection(place.ports["client"]):
            return True


class OwnNats(OwnServer):
    """A NATS server that a test may configure, stop, pause and kill."""

    def __init__(self, folder: Path, config: str = "", *, jetstream: bool = True) -> None:
        super().__init__(_Configured(config, jetstream), folder)

    @property
    def url(self) -> str:
        """Its address."""
        return self.kind.url(self.place)
