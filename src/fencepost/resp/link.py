"""One connection to a Redis, from its opening to its first trouble. It never connects again by itself.

A caller that gives up leaves no answer behind for the next one: what was asked is read to its end all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.asyncio.connection import Connection
from redis.exceptions import NoScriptError, ResponseError

from fencepost.errors import ConnectionLost, DeadlineExceeded, FencepostError
from fencepost.resp.address import Address, Node
from fencepost.resp.faults import ERRORS, SILENT, fault_of
from fencepost.resp.script import Script

_pack: Any
try:
    from hiredis import pack_command as _pack
except ImportError:  # redis-py does without it too, more slowly
    _pack = None

Word = str | bytes | int | float
Command = Sequence[Word]


class Link:
    """Made by ``opened``. ``place`` names the server in errors. ``lost`` is why the link has ended, None while it
    lives.
    """

    def __init__(self, connection: Connection, place: str, timeout_s: float) -> None:
        self.place, self._timeout_s = place, timeout_s
        self.lost: str | None = None
        self._connection = connection
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[list[Any]]] = set()

    async def ask(self, *commands: Command, beyond_s: float = 0.0) -> list[Any]:
        """The answers to the commands, which are sent together; binary texts are bytes.

        ``beyond_s``: how long the server may take on purpose (blocking commands), besides the ordinary deadline.
        Raises the first error among the answers; what the errors of the connection are, ends the link.
        """
        self.must_live()
        exchange = asyncio.ensure_future(self._exchange(commands, self._timeout_s + beyond_s))
        self._running.add(exchange)
        exchange.add_done_callback(self._done)
        return await asyncio.shield(exchange)

    async def one(self, *command: Word) -> Any:
        """The answer to one command."""
        return (await self.ask(command))[0]

    async def transaction(self, *commands: Command) -> list[Any]:
        """The answers to commands between which nothing else happens on the server."""
        answers: list[Any] = (await self.ask(("MULTI",), *commands, ("EXEC",)))[-1]
        for answer in answers:
            if isinstance(answer, ResponseError):
                await self._refused(answer)
        return answers

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Word] = ()) -> Any:
        """What a script returns."""
        tail = (len(keys), *keys, *arguments)
        try:
            return await self.one("EVALSHA", script.sha, *tail)
        except ConnectionLost as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
        return await self.one("EVAL", script.text, *tail)  # which keeps it for the next time

    def must_live(self) -> None:
        """Raise ConnectionLost where the link has ended."""
        if self.lost is not None:
            raise ConnectionLost(f"{self.place}: {self.lost}")

    async def end(self, why: str) -> None:
        """End the link, and with it the calls that are running. Never raises."""
        self.lost = self.lost or why
        try:
            await self._connection.disconnect(nowait=True)
        except ERRORS:
            return  # it is gone either way

    def _done(self, exchange: asyncio.Task[list[Any]]) -> None:
        self._running.discard(exchange)
        if not exchange.cancelled():
            exchange.exception()  # who gave the call up does not want to know

    async def _exchange(self, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                self.must_live()
                answers = await self._talk(commands)
        except ERRORS as error:
            fault = self._fault_of(error, timeout_s)
            await self.end(fault.what.removeprefix(f"{self.place}: "))
            raise fault from error
        for answer in answers:
            if isinstance(answer, ResponseError):
                await self._refused(answer)
        return answers

    async def _refused(self, error: ResponseError) -> None:
        fault = fault_of(error, self.place)
        if isinstance(fault, ConnectionLost) and not isinstance(error, NoScriptError):
            await self.end(fault.what.removeprefix(f"{self.place}: "))
        raise fault from error

    async def _talk(self, commands: Sequence[Command]) -> list[Any]:
        """Every answer is read, the errors among them too: otherwise the next call would read them."""
        await self._connection.send_packed_command(self._packed(commands), check_health=False)
        answers: list[Any] = []
        for _ in commands:
            try:
                answers.append(await self._connection.read_response(disable_decoding=True))
            except ResponseError as error:
                answers.append(error)
        return answers

    def _packed(self, commands: Sequence[Command]) -> list[bytes]:
        if _pack is None:
            return self._connection.pack_commands(commands)
        return [_pack(tuple(words)) for words in commands]

    def _fault_of(self, error: BaseException, timeout_s: float) -> FencepostError:
        if self.lost is not None:  # ended by somebody else meanwhile
            return ConnectionLost(f"{self.place}: {self.lost}")
        return in_time(error, self.place, timeout_s) or fault_of(error, self.place)


async def connected(address: Address, timeout_s: float, node: Node | None = None) -> Connection:
    """A new connection. Raises FixError, Unavailable or DeadlineExceeded."""
    try:
        async with asyncio.timeout(timeout_s):
            connection = await address.connection(timeout_s, node)
            await connection.connect()  # type: ignore[no-untyped-call]
    except ERRORS as error:
        raise in_time(error, address.place, timeout_s) or fault_of(error, address.place, connecting=True) from error
    return connection


async def opened(address: Address, timeout_s: float, node: Node | None = None) -> Link:
    """A new link. Raises what ``connected`` raises."""
    return Link(await connected(address, timeout_s, node), address.place, timeout_s)


def in_time(error: BaseException, place: str, timeout_s: float) -> DeadlineExceeded | None:
    """Our own deadline, which comes without a text."""
    if isinstance(error, TimeoutError) and not str(error):
        return DeadlineExceeded(f"{place} did not answer within {timeout_s:g} s", remedy=SILENT)
    return None
