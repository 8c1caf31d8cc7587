"""What the tests of the MQTT broker share: places, subscribers, servers of their own, and a peer that says what it is
told to.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from paho.mqtt.client import MQTT_ERR_SUCCESS, Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from fencepost.brokers.mqtt import broker
from fencepost.brokers.mqtt.broker import MqttBroker
from fencepost.brokers.mqtt.handoff import MqttHandoff
from fencepost.message import Stored
from fencepost.ports import BrokerOptions, Lane
from servers.mosquitto import Mosquitto
from servers.ports import HOST
from servers.state import Place as ServerPlace
from tests.brokers.rows import term
from tests.own_server import OwnServer
from tests.services import needed

ANSWER_S = 10.0


@dataclass
class Place:
    """A lane of its own at a server."""

    url: str
    name: str
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def lane(self) -> Lane:
        """The only lane of the relay."""
        return Lane(self.name)

    def broker(self, *, timeout_s: float = 20.0, **settings: Any) -> MqttBroker:
        """A broker for this place."""
        given = {"publish_s": 20.0} | self.settings | settings
        made = broker(BrokerOptions(url=self.url, source="/shop", timeout_s=timeout_s, settings=given))
        assert isinstance(made, MqttBroker)
        return made

    @asynccontextmanager
    async def handoff(self, **options: Any) -> AsyncIterator[MqttHandoff]:
        """The right to publish."""
        one = self.broker(**options)
        try:
            handoff = await one.take_over(self.lane, term())
            assert isinstance(handoff, MqttHandoff)
            yield handoff
        finally:
            await one.close()


class Subscriber:
    """An ordinary client that subscribes. ``session_s``: how long the server keeps its session when it is away."""

    def __init__(self, url: str, filters: str = "#", *, client_id: str = "", session_s: int = 0) -> None:
        parts = urlsplit(url)
        self.taken: list[MQTTMessage] = []
        self._filters, self._ready = filters, False
        self._client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTv5)
        if parts.username:
            self._client.username_pw_set(unquote(parts.username), unquote(parts.password or ""))
        self._client.on_message = lambda _, __, message: self.taken.append(message)
        self._client.on_subscribe = self._subscribed
        self._client.on_connect = self._connected
        session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        session.SessionExpiryInterval = session_s
        port = parts.port or 1883
        self._client.connect(parts.hostname or "", port, keepalive=0, clean_start=not session_s, properties=session)
        sock: Any = self._client.socket()
        self._socket = sock
        while not self._ready:
            assert self._client.loop(ANSWER_S) == MQTT_ERR_SUCCESS
        asyncio.get_running_loop().add_reader(sock, self._client.loop_read)

    def _connected(self, *_: object) -> None:
        self._client.subscribe(self._filters, 1)

    def _subscribed(self, *_: object) -> None:
        self._ready = True

    @property
    def ids(self) -> list[str]:
        """The ids of what it got, in order."""
        return [dict(user_properties(message))["id"] for message in self.taken]

    async def get(self, count: int) -> list[MQTTMessage]:
        """What it got, when it is so many."""
        async with asyncio.timeout(ANSWER_S):
            while len(self.taken) < count:
                await asyncio.sleep(0.005)
        return self.taken

    def close(self) -> None:
        """Let go."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._client.disconnect()

    async def __aenter__(self) -> Subscriber:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def user_properties(message: MQTTMessage) -> list[tuple[str, str]]:
    """In the order in which they were sent."""
    return list(getattr(message.properties, "UserProperty", ()))


def pairs(ids: Iterable[str], batch: Iterable[Stored]) -> dict[str | None, list[str]]:
    """The ids in order, for each key of the batch."""
    key_of = {m.id: m.key for m in batch}
    found: dict[str | None, list[str]] = {}
    for id_ in ids:
        found.setdefault(key_of[id_], []).append(id_)
    return found


PASSWORD = "p@ss/word"
"""Of every user of a server with users."""

USERS = """\
allow_anonymous false
password_file {folder}/passwords
acl_file {folder}/acl
"""
ACL = """\
user reader
topic read #
user writer
topic write open/#
"""
"""``writer`` may publish below "open" alone."""


class _Configured(Mosquitto):
    """With settings of a test's own besides: with users where they name its ``{folder}``."""

    port_names = ("client", "tls")

    def __init__(self, config: str) -> None:
        self._config = config

    def prepare(self, place: ServerPlace) -> None:
        super().prepare(place)
        file = place.folder / "mosquitto.conf"
        settings, more = file.read_text(), self._config
        if "{folder}" in more:
            _write_users(place.folder)
            settings = settings.replace("allow_anonymous true\n", "")
            more = more.format(folder=place.folder, tls=place.ports["tls"])
        as_root = "user root\n" if os.geteuid() == 0 else ""  # as somebody else it could not read the files of a test
        file.write_text(as_root + settings + more)


class OwnMosquitto(OwnServer):
    """A Mosquitto that a test may configure, pause, kill and start again."""

    def __init__(self, folder: Path, config: str = "") -> None:
        super().__init__(_Configured(config), folder)

    def url(self, user: str = "") -> str:
        """Its address, for one of its users."""
        login = f"{user}:p%40ss%2Fword@" if user else ""
        return f"mqtt://{login}{HOST}:{self.port}"


def _write_users(folder: Path) -> None:
    program = needed("mosquitto_passwd", "mosquitto")
    passwords = folder / "passwords"
    passwords.write_text(f"reader:{PASSWORD}\nwriter:{PASSWORD}\n")
    subprocess.run([program, "-U", str(passwords)], check=True)
    (folder / "acl").write_text(ACL)
    for path in (passwords, folder / "acl"):
        path.chmod(0o644)


def puback(mid: int, code: int = 0) -> bytes:
    """What acknowledges a message."""
    return b"\x40\x04" + mid.to_bytes(2, "big") + bytes((code, 0))


def connack(code: int = 0, properties: bytes = b"") -> bytes:
    """What lets a client in, or not."""
    return bytes((0x20, 3 + len(properties), 0, code, len(properties))) + properties


def disconnect(code: int) -> bytes:
    """What ends a connection."""
    return bytes((0xE0, 2, code, 0))


Says = Callable[["Script", int], bytes]


class Script:
    """A peer that says what no server at hand can be brought to say. ``says`` is given the number of each message."""

    def __init__(self, says: Says, hello: bytes | None = None, *, hangs_up_on: bytes | None = None) -> None:
        """``hangs_up_on`` is a payload that it does not answer to: it closes the connection."""
        self._says, self._hello = says, connack() if hello is None else hello
        self._hangs_up_on = hangs_up_on
        self.received: list[int] = []
        self._connections: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Its address."""
        async with await asyncio.start_server(self._begin, HOST, 0) as server:
            yield f"mqtt://{HOST}:{server.sockets[0].getsockname()[1]}"
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _packet(reader)
            writer.write(self._hello)
            while True:
                kind, body = await _packet(reader)
                if kind & 0xF0 == 0x30:
                    topic_bytes = int.from_bytes(body[:2], "big")
                    mid = int.from_bytes(body[2 + topic_bytes : 4 + topic_bytes], "big")
                    if self._hangs_up_on is not None and body.endswith(self._hangs_up_on):
                        return
                    self.received.append(mid)
                    writer.write(self._says(self, mid))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side has closed
        finally:
            writer.transport.abort()


async def _packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    kind = (await reader.readexactly(1))[0]
    length, shift = 0, 0
    while True:
        byte = (await reader.readexactly(1))[0]
        length |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return kind, await reader.readexactly(length)
