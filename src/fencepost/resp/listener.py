"""A connection that hears what is published on channels. It wakes; it is never the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redis.asyncio.connection import Connection

from fencepost.errors import ConnectionLost
from fencepost.resp.address import Address, Node
from fencepost.resp.faults import ERRORS, fault_of
from fencepost.resp.link import connected, in_time

Heard = Callable[[str | None], None]
"""Called with a channel when something was published there, with None when the connection has ended."""


class Listener:
    """Made by ``listening``. It lives until its first trouble; ``lost`` tells."""

    def __init__(self, connection: Connection, place: str, timeout_s: float, heard: Heard) -> None:
        self.lost = False
        self._connection, self._place, self._timeout_s, self._heard = connection, place, timeout_s, heard
        self._confirmed: dict[str, asyncio.Future[None]] = {}
        self._listening = asyncio.ensure_future(self._listen())
        self._listening.add_done_callback(_retrieve)  # ``lost`` tells; who drops the listener need not ask why

    async def subscribe(self, channel: str) -> None:
        """Hear a channel from now on. Raises AccessDenied, ConnectionLost or DeadlineExceeded."""
        confirmed = self._confirmed.get(channel)
        try:
            async with asyncio.timeout(self._timeout_s):
                if confirmed is None:
                    confirmed = self._confirmed[channel] = asyncio.get_running_loop().create_future()
                    await self._connection.send_command("SUBSCRIBE", channel, check_health=False)
                await asyncio.wait([confirmed, self._listening], return_when=asyncio.FIRST_COMPLETED)
        except ERRORS as error:
            await self.close()
            raise in_time(error, self._place, self._timeout_s) or fault_of(error, self._place) from error
        if self._listening.done():
            self._listening.result()
            raise ConnectionLost(f"{self._place}: the connection was closed")

    async def unsubscribe(self, channel: str) -> None:
        """Hear a channel no more. Never raises."""
        if self._confirmed.pop(channel, None) is not None and not self.lost:
            try:
                await self._connection.send_command("UNSUBSCRIBE", channel, check_health=False)
            except ERRORS:
                self.lost = True

    async def close(self) -> None:
        """End the connection. Never raises."""
        self.lost = True
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        try:
            await self._connection.disconnect(nowait=True)
        except ERRORS:
            return  # it is gone either way

    async def _listen(self) -> None:
        try:
            while True:
                kind, channel, *_ = await self._connection.read_response(disable_decoding=True)
                self._note(kind, channel.decode())
        except ERRORS as error:
            raise fault_of(error, self._place) from error
        finally:
            self.lost = True
            self._heard(None)

    def _note(self, kind: bytes, channel: str) -> None:
        confirmed = self._confirmed.get(channel)
        if kind == b"subscribe" and confirmed is not None and not confirmed.done():
            confirmed.set_result(None)
        elif kind == b"message":
            self._heard(channel)


def _retrieve(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


async def listening(address: Address, timeout_s: float, node: Node | None, heard: Heard) -> Listener:
    """A new listener. Raises what ``connected`` raises."""
    return Listener(await connected(address, timeout_s, node), address.place, timeout_s, heard)
