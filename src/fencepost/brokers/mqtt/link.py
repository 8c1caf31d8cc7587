"""One connection to an MQTT server, from connect to its first trouble, on the event loop.

It never reconnects by itself: whoever was publishing is told that the connection is lost, since nobody knows what
arrived. A connection that is given up is cut at once, so that nothing of what waits in it is sent later.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from paho.mqtt import MQTTException
from paho.mqtt.client import MQTT_ERR_SUCCESS, Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties

from fencepost.brokers.mqtt.address import Address, tls_context
from fencepost.brokers.mqtt.encode import Encoded
from fencepost.brokers.mqtt.faults import SILENT, SUCCESS, ended, from_code, from_library
from fencepost.brokers.mqtt.settings import PACKET_BYTES_MAX, Settings
from fencepost.errors import (
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    GuaranteeUnavailable,
)
from fencepost.servers import shown

_QOS = 1
_IN_FLIGHT_MAX = 65_535
_TICK_S = 1.0
_LIBRARY = (MQTTException, OSError)


class Answer(NamedTuple):
    """What the server said of one message: ``mid`` is the number it was sent with, ``text`` the server's own words."""

    mid: int
    code: int
    name: str
    text: str


class Terms(NamedTuple):
    """What the server said when it let us in."""

    in_flight_max: int
    """How many messages may be without an answer."""
    packet_bytes_max: int


class _Packed(Properties):
    """Properties that are encoded already: the library needs as long for them as for all the rest of a message."""

    packed: bytes

    def __init__(self, data: bytes) -> None:
        object.__setattr__(self, "packed", data)

    def pack(self) -> bytes:
        return self.packed


class Link:
    """See the module. Made by ``connect``."""

    def __init__(self, server: tuple[str, int], client_id: str, settings: Settings, timeout_s: float) -> None:
        self.shown, self.timeout_s = shown(server), timeout_s
        self.lost: FencepostError | None = None
        """Why the connection has ended; None while it has not."""
        self.was_ended = False
        """True where the server ended it, or the network: not we."""
        self.lost_code = SUCCESS
        """The number that the server, or the library, gave for it."""
        self.lost_name, self.lost_text = "", ""
        self.terms = Terms(_IN_FLIGHT_MAX, settings.packet_bytes_max)
        self._server, self._settings = server, settings
        self._loop = asyncio.get_running_loop()
        self._client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTv5, reconnect_on_failure=False)
        self._client.max_inflight_messages_set(0)  # the handoff counts them: only it knows what waits for what
        self._client.connect_timeout = timeout_s
        self._let_in: asyncio.Future[None] = self._loop.create_future()
        self._answers: list[Answer] = []
        self._under_way = 0
        self._answered: asyncio.Future[None] | None = None
        self._socket: Any = None
        self._watched, self._must_write = False, False
        self._tick: asyncio.TimerHandle | None = None

    @property
    def alive(self) -> bool:
        """False from its first trouble on."""
        return self.lost is None

    @asynccontextmanager
    async def asking(self, what: str) -> AsyncIterator[None]:
        """A deadline, and the translation of all that can go wrong into the families. ``what`` says what is done.

        Where nobody knows what became of it (an overdue answer, a cancelled call), the connection is given up.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                yield
        except TimeoutError as error:
            overdue = f"{what}: no answer from the MQTT server at {self.shown} within {self.timeout_s:g} s"
            self.give_up(DeadlineExceeded(overdue, remedy=SILENT))
            raise DeadlineExceeded(overdue, remedy=SILENT) from error
        except _LIBRARY as error:
            problem = from_library(error, what)
            self.give_up(problem)
            raise problem from error
        except asyncio.CancelledError:
            self.give_up(ConnectionLost(f"{what} was broken off"))
            raise

    # -- publishing ----------------------------------------------------------------------------------------------------

    def send(self, message: Encoded) -> int:
        """Begin to send a message; the number that its answer will have. Raises what ended the connection."""
        self._must_be_alive()
        properties = _Packed(message.properties)
        info = self._client.publish(message.topic, message.body, _QOS, self._settings.retain, properties)
        if info.rc != MQTT_ERR_SUCCESS:
            raise ConnectionLost(f"the connection to the MQTT server at {self.shown} takes no message")
        self._under_way += 1
        return info.mid

    async def answers(self) -> list[Answer]:
        """What the server has said since the last call; waits until there is something.

        Raises what ended the connection, after everything that was said before.
        """
        if not self._answers:
            self._must_be_alive()
            self._answered = self._loop.create_future()
            await self._answered
        if not self._answers:
            self._must_be_alive()
        found, self._answers = self._answers, []
        return found

    def close(self) -> None:
        """Say goodbye, where nothing is under way, and close. Never raises."""
        polite = self.alive and self._watched and not self._under_way
        closed = ConnectionLost(f"the connection to the MQTT server at {self.shown} was closed")
        self._end(closed)
        if polite:
            with suppress(*_LIBRARY):  # it is cut below in any case
                self._client.disconnect()
                self._client.loop_write()
        self.give_up(closed)

    def give_up(self, error: FencepostError) -> None:
        """Cut the connection, without sending what still waits to be sent. Never raises."""
        self._end(error)
        sock, self._socket = self._socket, None
        self._unwatch(sock)
        if sock is not None:
            with suppress(OSError):  # it may be closed already
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(OSError):  # the same
                sock.close()

    # -- the beginning and the end -------------------------------------------------------------------------------------

    async def open(self, address: Address) -> None:
        """Connect and learn the server's terms. Raises AccessDenied or another FixError, RetryError."""
        what = f"connecting to the MQTT server at {self.shown}"
        user, password = self._settings.user or address.user, self._settings.password or address.password
        if user:
            self._client.username_pw_set(user, password or None)
        if (tls := tls_context(address, self._settings)) is not None:
            self._client.tls_set_context(tls)
        async with self.asking(what):
            await self._connect()
            await self._let_in
        if self.lost is not None:
            raise self.lost

    async def _connect(self) -> None:
        """The library connects, and shakes hands for TLS, in a blocking way."""
        client = self._client
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_publish, client.on_socket_close = self._on_publish, self._on_socket_close
        client.on_socket_register_write, client.on_socket_unregister_write = self._on_must_write, self._on_written
        connecting = self._loop.run_in_executor(None, self._connect_blocking)
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(self._came_too_late)
            raise
        except ValueError as error:  # a name that no host can have
            raise from_library(error, f"connecting to the MQTT server at {self.shown}") from error
        self._watch()

    def _connect_blocking(self) -> None:
        host, port = self._server
        self._client.connect(host, port, self._settings.keepalive_s, clean_start=True)
        self._socket = self._client.socket()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _came_too_late(self, connecting: asyncio.Future[None]) -> None:
        connecting.exception()  # it counts as seen
        self.give_up(ConnectionLost(f"connecting to {self.shown} was broken off"))

    def _watch(self) -> None:
        self._watched = True
        self._loop.add_reader(self._socket, self._read)
        if self._must_write or self._client.want_write():
            self._loop.add_writer(self._socket, self._write)
        self._tick = self._loop.call_later(_TICK_S, self._misc)

    def _unwatch(self, sock: Any) -> None:
        if self._tick is not None:
            self._tick.cancel()
        if self._watched and sock is not None and sock.fileno() >= 0:
            self._loop.remove_reader(sock)
            self._loop.remove_writer(sock)
        self._watched = False

    def _must_be_alive(self) -> None:
        if self.lost is not None:
            raise self.lost

    def _end(self, error: FencepostError) -> None:
        """Tell everybody who waits. The first reason is the one that counts."""
        self.lost = self.lost or error
        if not self._let_in.done():
            self._let_in.set_result(None)
        self._wake()

    def _wake(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    # -- what the event loop and the library call ----------------------------------------------------------------------

    def _read(self) -> None:
        self._guarded(self._client.loop_read)
        while isinstance(self._socket, ssl.SSLSocket) and self._watched and self._socket.pending():
            self._guarded(self._client.loop_read)  # decrypted already: the event loop sees nothing of it

    def _write(self) -> None:
        self._guarded(self._client.loop_write)

    def _misc(self) -> None:
        self._guarded(self._client.loop_misc)
        if self._watched:
            self._tick = self._loop.call_later(_TICK_S, self._misc)

    def _guarded(self, call: Any) -> None:
        try:
            call()
        except _LIBRARY as error:
            self.give_up(from_library(error, f"the connection to the MQTT server at {self.shown}"))

    def _on_connect(self, _: Client, __: object, ___: object, reason: Any, properties: Any) -> None:
        if reason.value == SUCCESS:
            error = self._take_terms(properties)
        else:
            what = f"connecting to the MQTT server at {self.shown}"
            error = from_code(reason.value, str(reason), what, _text(properties))
        if error is not None:
            self._end(error)
        elif not self._let_in.done():
            self._let_in.set_result(None)

    def _take_terms(self, properties: Any) -> FencepostError | None:
        limit = min(getattr(properties, "MaximumPacketSize", PACKET_BYTES_MAX), self._settings.packet_bytes_max)
        self.terms = Terms(getattr(properties, "ReceiveMaximum", _IN_FLIGHT_MAX), limit)
        if getattr(properties, "MaximumQoS", _QOS) < _QOS:
            what = f"the MQTT server at {self.shown} acknowledges no messages: it takes only QoS 0"
            return GuaranteeUnavailable(what, remedy="use a server that takes QoS 1")
        if self._settings.retain and not getattr(properties, "RetainAvailable", 1):
            what = f"the MQTT server at {self.shown} retains no messages"
            return ConfigurationError(what, remedy="set retain = false, or let the server retain messages")
        return None

    def _on_publish(self, _: Client, __: object, mid: int, reason: Any, properties: Any) -> None:
        self._under_way -= 1
        self._answers.append(Answer(mid, reason.value, str(reason), _text(properties)))
        self._wake()

    def _on_disconnect(self, _: Client, __: object, flags: Any, reason: Any, properties: Any) -> None:
        if self.lost is None:
            self.was_ended = True
            self.lost_code, self.lost_name, self.lost_text = reason.value, str(reason), _text(properties)
            by_server, what = (
                flags.is_disconnect_packet_from_server,
                f"the connection to the MQTT server at {self.shown}",
            )
            self._end(ended(reason.value, str(reason), what, by_server=by_server, text=self.lost_text))

    def _on_socket_close(self, _: Client, __: object, sock: Any) -> None:
        self._unwatch(sock)

    def _on_must_write(self, _: Client, __: object, sock: Any) -> None:
        self._must_write = True
        if self._watched:
            self._loop.add_writer(sock, self._write)

    def _on_written(self, _: Client, __: object, sock: Any) -> None:
        self._must_write = False
        if self._watched:
            self._loop.remove_writer(sock)


def _text(properties: Any) -> str:
    """The server's own words, where it gave any."""
    return str(getattr(properties, "ReasonString", "") or "")


async def connect(address: Address, settings: Settings, client_id: str, timeout_s: float) -> Link:
    """A new connection, to the first server that has one. Raises AccessDenied or another FixError, RetryError."""
    problem: FencepostError | None = None
    for server in address.servers:
        link = Link(server, client_id, settings, timeout_s)
        try:
            await link.open(address)
        except FencepostError as error:
            link.give_up(error)
            problem = error
        else:
            return link
    assert problem is not None, "an address has a server"  # noqa: S101
    raise problem
