"""One connection to a RabbitMQ server with one channel for publishing, from connect to its first trouble.

It never reconnects by itself: whoever was publishing is told that the connection is lost, since nobody knows what
arrived. A connection that is given up is cut at once, so that nothing of what waits in it is sent later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext
from typing import Any

from aiormq import Connection, spec
from aiormq.abc import AbstractChannel
from aiormq.connection import TransportFactory
from aiormq.exceptions import AMQPError, ChannelInvalidStateError
from pamqp.exceptions import PAMQPException
from yarl import URL

from fencepost.brokers.rabbitmq import wire
from fencepost.brokers.rabbitmq.address import Address
from fencepost.brokers.rabbitmq.faults import BLOCKED, SILENT, from_library
from fencepost.brokers.rabbitmq.settings import Settings
from fencepost.calls import is_cancelled
from fencepost.errors import ConnectionLost, DeadlineExceeded, FencepostError, Unavailable

CHANNEL = 1
"""The number of the channel for publishing, on each connection."""
CLOSE_S = 1.0
_FRAME_BYTES_MAX = 131_072
"""Where the server sets no limit."""
_LIBRARY = (AMQPError, PAMQPException, ChannelInvalidStateError, OSError, EOFError)

# The library logs as an error what arrives here as an exception. An application that has handlers still gets it.
logging.getLogger("aiormq").addHandler(logging.NullHandler())


class _Transport(TransportFactory):
    """Opens the socket, and keeps it: the library itself only closes in an orderly way, which a stuck server delays."""

    def __init__(self, tls: SSLContext | None) -> None:
        self._tls = tls
        self._writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, self._writer = await asyncio.open_connection(url.host, url.port, ssl=self._tls)
        return reader, self._writer

    def abort(self) -> None:
        """Cut the connection; what was not sent yet is dropped."""
        if self._writer is not None:
            self._writer.transport.abort()


class Link:
    """See the module. Made by ``connect``."""

    def __init__(self, connection: Connection, transport: _Transport, shown: str, timeout_s: float) -> None:
        self.timeout_s, self.shown = timeout_s, shown
        self._connection, self._transport = connection, transport
        self._channel: AbstractChannel | None = None
        self._given_up = False
        self.was_blocked = False
        """True where the server had blocked publishers when this was given up."""

    @property
    def alive(self) -> bool:
        """False from its first trouble on."""
        return self._connection.is_opened and not self._given_up

    @property
    def frame_bytes_max(self) -> int:
        """The largest frame."""
        return self._connection.connection_tune.frame_max or _FRAME_BYTES_MAX

    @asynccontextmanager
    async def asking(self, what: str) -> AsyncIterator[None]:
        """A deadline, and the translation of all that can go wrong into the families. ``what`` says what is done.

        Where nobody knows what became of it (an overdue answer, a cancelled call), the connection is given up.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                yield
        except TimeoutError as error:
            self.was_blocked = self._is_blocked()
            await self.give_up()
            raise self._overdue(what) from error
        except _LIBRARY as error:
            raise from_library(error, what) from error
        except asyncio.CancelledError as error:
            self.was_blocked = self._is_blocked()
            await self.give_up()
            if not is_cancelled():  # the library ends its own tasks so, and whoever waits for them
                raise from_library(error, what) from error
            raise

    def _overdue(self, what: str) -> FencepostError:
        if self.was_blocked:
            return blocked(self.shown)
        text = f"{what}: no answer from RabbitMQ at {self.shown} within {self.timeout_s:g} s"
        return DeadlineExceeded(text, remedy=SILENT)

    def _is_blocked(self) -> bool:
        """Whether the server has said that it takes no messages for now: then ``ready`` has something to wait for."""
        if self._channel is None:  # not connected yet
            return False
        waiting = self._connection.ready()
        try:
            waiting.send(None)
        except StopIteration:
            return False
        waiting.close()
        return True

    # -- publishing ----------------------------------------------------------------------------------------------------

    async def channel(self) -> AbstractChannel:
        """The channel for publishing, a new one where the server has closed it."""
        if self._channel is None or self._channel.is_closed:
            self._must_be_alive()
            self._channel = await self._connection.channel(channel_number=CHANNEL)
        return self._channel

    @property
    def closed_because(self) -> BaseException | None:
        """Why the server has closed the channel for publishing; None where it has not, or where all is lost."""
        channel = self._channel
        if channel is None or not channel.is_closed or not self.alive:
            return None
        return channel.closing.exception() if not channel.closing.cancelled() else None

    async def confirmed(self, window: wire.Window, frames: bytes) -> None:
        """Send and wait until the server has said something of every message, or has closed the channel.

        Raises what ended the connection.
        """
        await self._connection.ready()
        channel = await self.channel()
        closing = channel.closing
        try:
            await window.send(frames)
            await asyncio.wait([window.done, closing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            window.end()
            if not closing.done():
                closing.cancel()
        if not window.done.done() and self.closed_because is None:
            raise await self._lost()

    async def probe(self) -> None:
        """Raise Unavailable where the server blocks publishers until the deadline.

        It says so only to those who publish; what is sent here reaches nobody, and comes back.
        """
        async with (
            self.asking(f"asking RabbitMQ at {self.shown} whether it takes messages"),
            self.separate() as channel,
        ):
            with suppress(AMQPError):  # the message comes back, or may not even be sent: an answer in any case
                properties = spec.Basic.Properties(delivery_mode=1)
                await channel.basic_publish(b"", routing_key=_NOBODY, properties=properties, mandatory=True)

    # -- everything else -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def separate(self) -> AsyncIterator[Any]:
        """A channel of its own: the server closes one to say no."""
        self._must_be_alive()
        channel = await self._connection.channel(publisher_confirms=True)
        try:
            yield channel
        finally:
            if not channel.is_closed and self.alive:
                with suppress(*_LIBRARY):  # what was asked has its answer already
                    await channel.close()

    async def close(self) -> None:
        """Close. Never raises."""
        self._given_up = True
        with suppress(*_LIBRARY, TimeoutError):  # it is cut below in any case
            async with asyncio.timeout(CLOSE_S):
                await self._connection.close()
        self._transport.abort()

    async def give_up(self) -> None:
        """Cut the connection, without sending what still waits to be sent. Never raises."""
        self._transport.abort()
        await self.close()

    def _must_be_alive(self) -> None:
        if not self.alive:
            raise ConnectionLost(f"the connection to RabbitMQ at {self.shown} is lost")

    async def _lost(self) -> BaseException:
        """Why the connection has ended; the library knows it a moment later than its channels."""
        with suppress(TimeoutError):  # then nobody knows why
            async with asyncio.timeout(CLOSE_S):
                await asyncio.wait([self._connection.closing])
        closing = self._connection.closing
        error = closing.exception() if closing.done() and not closing.cancelled() else None
        if error is None or isinstance(error, asyncio.CancelledError):
            return ConnectionLost(f"the connection to RabbitMQ at {self.shown} is lost")
        return error


_NOBODY = "fencepost.nobody"


def blocked(shown: str) -> Unavailable:
    """The server takes no messages for now."""
    return Unavailable(f"RabbitMQ at {shown} has blocked publishers: an alarm of memory or disk is on", remedy=BLOCKED)


async def connect(address: Address, settings: Settings, timeout_s: float) -> Link:
    """A new connection, to the first server that has one. Raises AccessDenied or another FixError, RetryError."""
    tls = settings.tls_context(address.tls)
    what, error = f"connecting to RabbitMQ at {address}", None
    for url in address.urls(settings):
        try:
            return await _connect(url, tls, address, what, timeout_s)
        except FencepostError as problem:
            error = problem
    assert error is not None, "an address has a server"  # noqa: S101
    raise error


async def _connect(url: URL, tls: SSLContext | None, address: Address, what: str, timeout_s: float) -> Link:
    transport = _Transport(tls)
    connection = Connection(url, transport_factory=transport)
    link = Link(connection, transport, str(address), timeout_s)
    try:
        async with link.asking(what):
            await connection.connect()
            await link.channel()
    except BaseException:
        await link.give_up()
        raise
    return link
