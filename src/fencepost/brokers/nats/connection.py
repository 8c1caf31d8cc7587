"""One connection to a NATS server, from connect to its first trouble.

It never reconnects by itself. The server knows a batch that is under way by its id alone, so a client that goes on
writing after a reconnect would continue half a batch; here whoever was writing is told that the connection is lost.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from nats import errors as library
from nats.aio.client import Client
from nats.aio.msg import Msg

from fencepost.brokers.nats import wire
from fencepost.brokers.nats.address import Address, connect_options
from fencepost.brokers.nats.errors import NO_RESPONDERS, SILENT, Refusal, from_library
from fencepost.brokers.nats.settings import Settings
from fencepost.errors import (
    AccessDenied,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    FixError,
    MissingExtra,
    Unavailable,
)

CLOSE_S = 2.0
_LOOK_S = 0.5


@asynccontextmanager
async def asking(what: str, timeout_s: float) -> AsyncIterator[None]:
    """A deadline, and the translation of all that can go wrong into the families. ``what`` says what is being done."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except Refusal as refusal:
        raise refusal.as_error(what) from refusal
    except library.Error as error:
        raise from_library(error, what) from error
    except TimeoutError as error:
        text = f"{what}: no answer from the NATS server within {timeout_s:g} s"
        raise DeadlineExceeded(text, remedy=SILENT) from error
    except OSError as error:
        raise from_library(error, what) from error


class Exchange:
    """The answers to what one caller sent. A message that wants an answer carries ``reply(token)`` as reply subject."""

    def __init__(self, subject: str, is_alive: Callable[[], bool]) -> None:
        self._subject = subject
        self._is_alive = is_alive
        self._answers: deque[tuple[int, dict[str, Any]] | FencepostError] = deque()
        self._news = asyncio.Event()

    def reply(self, token: int) -> str:
        """The reply subject of the message with this number."""
        return f"{self._subject}.{token}"

    def arrived(self, answer: tuple[int, dict[str, Any]] | FencepostError) -> None:
        """An answer has come, or the news that none will come any more."""
        self._answers.append(answer)
        self._news.set()

    async def next(self) -> tuple[int, dict[str, Any]]:
        """The next answer and the number of its message. Raises what has happened to the connection."""
        while not self._answers:
            await self._wait()
        answer = self._answers.popleft()
        if isinstance(answer, FencepostError):
            raise answer
        return answer

    async def _wait(self) -> None:
        """Wait for news. The library does not report every end of a connection, so it looks now and then."""
        self._news.clear()
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._news.wait()
        except TimeoutError:
            if not self._is_alive():
                self.arrived(ConnectionLost("the connection to the NATS server is lost"))

    async def accepted(self, token: int) -> dict[str, Any]:
        """The answer to the message of this number. Raises Refusal for a refusal of this one or of any before it."""
        while True:
            number, answer = await self.next()
            if refusal := Refusal.of(answer):
                raise refusal
            if number == token:
                return answer


class Connection:
    """See the module. Made by ``connect``."""

    def __init__(self, client: Client, settings: Settings, timeout_s: float) -> None:
        self.client = client
        self.timeout_s = timeout_s
        self._settings = settings
        self._inbox = ""
        self._exchanges: dict[str, Exchange] = {}
        self._made = 0
        self._given_up = False

    @property
    def alive(self) -> bool:
        """False from its first trouble on."""
        return self.client.is_connected and not self._given_up

    @property
    def version(self) -> tuple[int, int, int]:
        """The server's version."""
        found = self.client.connected_server_version
        return (found.major, found.minor, found.patch)

    @asynccontextmanager
    async def asking(self, what: str) -> AsyncIterator[None]:
        """As ``asking``. A connection whose answer is overdue is given up."""
        try:
            async with asking(what, self.timeout_s):
                yield
        except DeadlineExceeded:
            await self.give_up()
            raise

    async def listen(self) -> None:
        """Begin to receive answers; the server has agreed when this returns, or has said no to ``on_trouble``."""
        self._inbox = self.client.new_inbox()
        await self.client.subscribe(f"{self._inbox}.>", cb=self._on_answer)
        await self.client.flush(math.ceil(self.timeout_s))

    @asynccontextmanager
    async def exchange(self) -> AsyncIterator[Exchange]:
        """A place for answers, for as long as the block lasts."""
        if not self.alive:
            raise ConnectionLost("the connection to the NATS server is lost")
        self._made += 1
        name = str(self._made)
        exchange = self._exchanges[name] = Exchange(f"{self._inbox}.{name}", lambda: self.alive)
        try:
            yield exchange
        finally:
            del self._exchanges[name]

    async def send(self, frames: Sequence[bytes]) -> None:
        """Write frames, in this order."""
        await wire.send(self.client, frames)

    async def request(self, subject: str, body: bytes = b"", headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Publish one message and return its answer. Raises Refusal."""
        async with self.exchange() as exchange:
            await self.client.publish(subject, body, reply=exchange.reply(0), headers=headers)
            return await exchange.accepted(0)

    async def api(self, operation: str, parameters: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Ask the JetStream API, for example ``STREAM.INFO.ORDERS``. Raises Refusal."""
        body = json.dumps(parameters).encode() if parameters is not None else b""
        return await self.request(f"{self._settings.api}.{operation}", body)

    async def tell(self, operation: str) -> None:
        """As ``api``, without waiting for an answer. Never raises."""
        with suppress(library.Error, OSError):
            await self.client.publish(f"{self._settings.api}.{operation}")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """A subject of one's own that this connection has subscribed to, for as long as the block lasts."""
        subject = self.client.new_inbox()
        subscription = await self.client.subscribe(subject, cb=_ignore)
        try:
            yield subject
        finally:
            with suppress(library.Error, OSError):
                await subscription.unsubscribe()

    async def close(self) -> None:
        """Close. Never raises."""
        self._given_up = True
        # Not every version of the library can close a client that never had a connection.
        with suppress(library.Error, OSError, RuntimeError, AttributeError):
            async with asyncio.timeout(CLOSE_S):
                await self.client.close()
        wire.abort(self.client)
        self.failed(ConnectionLost("the connection to the NATS server was closed"))

    async def give_up(self) -> None:
        """Close without sending what still waits to be sent: an answer is overdue, so nobody knows what arrived."""
        wire.abort(self.client)
        await self.close()

    def failed(self, error: FencepostError) -> None:
        """Tell everybody who waits for an answer."""
        for exchange in self._exchanges.values():
            exchange.arrived(error)

    async def on_trouble(self, error: Exception) -> None:
        """The library reports an error that it does not raise."""
        problem = from_library(error, "the connection to the NATS server")
        if isinstance(problem, AccessDenied | ConnectionLost):
            self.failed(problem)

    async def on_closed(self) -> None:
        """The library has closed the connection."""
        self.failed(ConnectionLost("the connection to the NATS server is lost"))

    async def _on_answer(self, message: Msg) -> None:
        name, _, token = message.subject[len(self._inbox) + 1 :].partition(".")
        if exchange := self._exchanges.get(name):
            exchange.arrived((int(token), _decoded(message)))


async def _ignore(_: Msg) -> None:
    """The subscription itself is what counts."""


def _decoded(message: Msg) -> dict[str, Any]:
    if message.headers and message.headers.get("Status") == "503":
        return {"error": {"code": 503, "err_code": NO_RESPONDERS, "description": "no responders"}}
    answer = json.loads(message.data) if message.data else {}
    return answer if isinstance(answer, dict) else {}


async def connect(address: Address, settings: Settings, timeout_s: float) -> Connection:
    """A new connection. Raises AccessDenied or another FixError, Unavailable or DeadlineExceeded."""
    options, what = connect_options(address, settings), f"connecting to NATS at {address}"
    client = Client()
    connection = Connection(client, settings, timeout_s)
    troubles: list[Exception] = []

    async def on_trouble(error: Exception) -> None:
        troubles.append(error)
        await connection.on_trouble(error)

    options |= {"error_cb": on_trouble, "closed_cb": connection.on_closed}
    options |= {"connect_timeout": timeout_s, "flush_timeout": timeout_s}
    try:
        async with asking(what, timeout_s):
            await client.connect(**options)
            troubles.clear()  # of servers that were tried before
            await connection.listen()
            if troubles:
                raise from_library(troubles[-1], what)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{what}: {error}", remedy="pip install nkeys, which credentials need") from error
    except (FencepostError, asyncio.CancelledError) as error:
        await connection.give_up()
        raise _better(error, troubles, what) from error
    if "tls" in options and not wire.is_encrypted(client):
        await connection.give_up()
        raise FixError(f"{what}: TLS is configured but the server does not offer it", remedy="enable TLS at the server")
    return connection


def _better(error: BaseException, troubles: Sequence[Exception], what: str) -> BaseException:
    """The library says "no servers available"; the last thing that went wrong before says why."""
    if isinstance(error, Unavailable) and isinstance(error.__cause__, library.NoServersError) and troubles:
        causes = [t for t in troubles if not isinstance(t, library.NoServersError)]
        return from_library(causes[-1], what) if causes else error
    return error
