"""What the tests of the RabbitMQ broker share: places of their own, reading back, and a server of their own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiormq
from aiormq.abc import DeliveredMessage

from fencepost.brokers.rabbitmq import broker
from fencepost.brokers.rabbitmq.broker import RabbitBroker
from fencepost.ports import Broker, BrokerOptions, Handoff, Lane
from servers.ports import pick
from servers.rabbitmq import PACKAGE_FOLDER, RabbitMQ
from servers.server import find_program
from servers.state import Place as ServerPlace
from tests.brokers.nats_kit import term
from tests.docs.pages import TREE

_NONE: Mapping[str, object] = {}


@dataclass
class Place:
    """Names of its own at a server: all that is made there begins with ``name`` and is removed at the end."""

    url: str
    name: str
    settings: dict[str, object] = field(default_factory=dict)
    made: list[tuple[str, str]] = field(default_factory=list)

    @property
    def lane(self) -> Lane:
        """The only lane of the relay."""
        return Lane(self.name)

    def broker(self, *, create: bool = True, timeout_s: float = 20.0, **settings: Any) -> RabbitBroker:
        """A broker for this place."""
        given = self.settings | settings
        made = broker(BrokerOptions(url=self.url, source="/shop", create=create, timeout_s=timeout_s, settings=given))
        assert isinstance(made, RabbitBroker)
        return made

    @asynccontextmanager
    async def handoff(self, **options: Any) -> AsyncIterator[Handoff]:
        """The right to publish."""
        one: Broker = self.broker(**options)
        try:
            yield await one.take_over(self.lane, term())
        finally:
            await one.close()

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[Any]:
        """A channel of an ordinary client."""
        connection = await aiormq.connect(self.url)
        try:
            yield await connection.channel()
        finally:
            await connection.close()

    async def queue(self, name: str, *keys: str, exchange: str = "", arguments: Mapping[str, object] = _NONE) -> str:
        """Make a queue as somebody else would, bound by these keys."""
        async with self.channel() as channel:
            await channel.queue_declare(name, durable=True, arguments=dict(arguments))
            self.made.append(("queue", name))
            for key in keys:
                await channel.queue_bind(name, exchange, routing_key=key)
        return name

    async def exchange(self, name: str, kind: str = "topic") -> str:
        """The same with an exchange."""
        async with self.channel() as channel:
            await channel.exchange_declare(name, exchange_type=kind, durable=True)
            self.made.append(("exchange", name))
        return name

    async def taken(self, queue: str) -> list[DeliveredMessage]:
        """Take everything from a queue."""
        found = []
        async with self.channel() as channel:
            while (message := await channel.basic_get(queue, no_ack=True)).delivery.name == "Basic.GetOk":
                found.append(message)
        return found

    async def headers(self, queue: str) -> list[dict[str, Any]]:
        """The headers of what is taken."""
        return [dict(message.header.properties.headers or {}) for message in await self.taken(queue)]

    async def ids(self, queue: str) -> list[str | None]:
        """The ids of what is taken."""
        return [message.header.properties.message_id for message in await self.taken(queue)]

    async def drop(self) -> None:
        """Delete what was made, and whatever a broker made under the names that are given to ``made``."""
        async with self.channel() as channel:
            for kind, name in self.made:
                await (channel.queue_delete(name) if kind == "queue" else channel.exchange_delete(name))


PASSWORD = "p@ss/word"
"""Of every user of the server below."""


def _user(name: str, *tags: str) -> dict[str, object]:
    salt = b"salt"
    digest = base64.b64encode(salt + hashlib.sha256(salt + PASSWORD.encode()).digest()).decode()
    return {"name": name, "password_hash": digest, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": tags}


def _may(user: str, vhost: str = "/", write: str = ".*", configure: str = ".*") -> dict[str, str]:
    return {"user": user, "vhost": vhost, "configure": configure, "write": write, "read": ".*"}


def documented() -> list[tuple[str, str, str]]:
    """Configure, write and read, as docs/rabbitmq.md grants them: to send only, and to create too."""
    page = (TREE / "docs" / "rabbitmq.md").read_text()
    return re.findall(r"set_permissions -p shop relay '(\S+)' '(\S+)' '(\S+)'", page)


def _granted(user: str, vhost: str, number: int) -> dict[str, str]:
    configure, write, read = documented()[number]
    return {"user": user, "vhost": vhost, "configure": configure, "write": write, "read": read}


DEFINITIONS = {
    "users": [_user(name) for name in ("writer", "stranger", "sender", "creator")] + [_user("guest", "administrator")],
    "vhosts": [{"name": "/"}, {"name": "shop/one"}, {"name": "shop"}],
    "permissions": [
        _may("guest"),
        _may("guest", "shop/one"),
        _may("writer", write="open|amq.default", configure="^$"),
        _may("guest", "shop"),
        _granted("sender", "shop", 0),
        _granted("creator", "shop", 1),
    ],
}
"""``writer`` may write to the exchange "open" and create nothing; ``stranger`` may nothing."""

LIMIT_BYTES = 100_000
"""Of a message's body at the server below."""


class OwnServer:
    """A server that tests may pause, kill, start again and give an alarm to. It keeps its ports and its data."""

    def __init__(self, folder: Path) -> None:
        self._server = RabbitMQ()
        ports: dict[str, int] = {}
        for name in self._server.port_names:
            ports[name] = pick(list(ports.values()))
        self.place = ServerPlace(folder, ports)
        self.declared_at = 0.0
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def host(self) -> str:
        """Its host and port."""
        return f"127.0.0.1:{self.place.ports['client']}"

    def url(self, user: str = "guest", vhost: str = "") -> str:
        """Its address, for one of its users."""
        return f"amqp://{user}:p%40ss%2Fword@{self.host}/{vhost}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._server.prepare(self.place)
        definitions = self.place.folder / "definitions.json"
        definitions.write_text(json.dumps(DEFINITIONS))
        with (self.place.folder / "rabbitmq.conf").open("a") as config:
            config.write(f"load_definitions = {definitions}\nmax_message_size = {LIMIT_BYTES}\n")
        running = [process for process in self._processes if process.poll() is None]
        launches = self._server.launches(self.place)
        for launch in launches[len(running) :]:  # the port mapper lives on
            with self.place.log.open("ab") as log:
                env = {**os.environ, **launch.env}
                self._processes.append(
                    subprocess.Popen(launch.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
                )
        self._await_answer()

    def _await_answer(self) -> None:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            try:
                if self._server.answers(self.place) and self._machine():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"RabbitMQ does not start, see {self.place.log}")

    def _machine(self) -> int:
        """The process of the Erlang machine itself."""
        return self._server.companions(self.place)[0]

    def kill(self) -> None:
        """End it as a power failure would; the start script that waits for it ends too."""
        os.kill(self._machine(), signal.SIGKILL)
        self._processes.pop().wait(30)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It does nothing for as long as the block lasts."""
        os.kill(self._machine(), signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._machine(), signal.SIGCONT)

    async def control(self, *arguments: str) -> None:
        """Run rabbitmqctl."""
        program = find_program("rabbitmqctl", [PACKAGE_FOLDER])
        assert program, "rabbitmqctl is not installed"
        env = {**os.environ, **self._server.launches(self.place)[-1].env}
        process = await asyncio.create_subprocess_exec(program, "-q", *arguments, env=env, stdin=subprocess.DEVNULL)
        assert await process.wait() == 0, arguments

    def end(self) -> None:
        """End everything."""
        with suppress(OSError, IndexError, ValueError):  # where it did not come up
            self.kill()
        for process in reversed(self._processes):
            process.kill()
            process.wait(10)
