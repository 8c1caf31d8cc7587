"""What the tests of the RabbitMQ broker share: places of their own, reading back, and a server of their own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiormq
from aiormq.abc import DeliveredMessage

from fencepost.brokers.rabbitmq import broker
from fencepost.brokers.rabbitmq.broker import RabbitBroker
from fencepost.ports import BrokerOptions, Handoff, Lane
from servers.ports import HOST
from servers.rabbitmq import PACKAGE_FOLDER, RabbitMQ
from servers.server import need_program
from servers.state import Place as ServerPlace
from tests.brokers.opened import owning
from tests.docs.pages import TREE
from tests.own_server import OwnServer

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

    def handoff(self, **options: Any) -> AbstractAsyncContextManager[Handoff]:
        """The right to publish."""
        return owning(self.broker(**options), self.lane)

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


class _Defined(RabbitMQ):
    """With the users, vhosts and limit above."""

    def prepare(self, place: ServerPlace) -> None:
        super().prepare(place)
        definitions = place.folder / "definitions.json"
        definitions.write_text(json.dumps(DEFINITIONS))
        with (place.folder / "rabbitmq.conf").open("a") as config:
            config.write(f"load_definitions = {definitions}\nmax_message_size = {LIMIT_BYTES}\n")


class OwnRabbit(OwnServer):
    """A RabbitMQ that tests may pause, kill, start again and give an alarm to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(_Defined(), folder)
        self.declared_at = 0.0

    @property
    def host(self) -> str:
        """Its host and port."""
        return f"{HOST}:{self.port}"

    def url(self, user: str = "guest", vhost: str = "") -> str:
        """Its address, for one of its users."""
        return f"amqp://{user}:p%40ss%2Fword@{self.host}/{vhost}"

    async def control(self, *arguments: str) -> None:
        """Run rabbitmqctl."""
        program = need_program("rabbitmqctl", [PACKAGE_FOLDER])
        env = {**os.environ, **self.kind.launches(self.place)[-1].env}
        process = await asyncio.create_subprocess_exec(program, "-q", *arguments, env=env, stdin=subprocess.DEVNULL)
        assert await process.wait() == 0, arguments
