"""A TCP proxy for trouble: connections are cut, held back, half-open, slow or narrow.

What a network really does: a cut connection is reset; a held one loses nothing and goes on later, as after a partition
that heals; a half-open one loses what was sent on it, in one direction or in both, and can only end.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from fencepost.clock import Clock

Kind = Literal["cut", "hold", "half-open", "slow", "narrow"]
Way = Literal["both", "to server", "to client"]

Translate = Callable[[bytes], bytes]
"""Is given what a server sends on one connection, piece by piece; what the client is to see of it."""

_PIECE = 65536
_NARROW_PIECE = 2048
_RESET = struct.pack("ii", 1, 0)  # linger for 0 seconds: closing sends RST


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a link, and in which direction. ``delay_s`` counts where it is slow, ``bytes_per_s`` where
    it is narrow.
    """

    kind: Kind
    way: Way = "both"
    delay_s: float = 0.0
    bytes_per_s: float = 0.0

    def concerns(self, way: Way) -> bool:
        """True where it is about this direction."""
        return self.way in ("both", way)


class _Pair:
    """One connection from a client and the one to the server that belongs to it."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.writers = [client]
        self.tasks: list[asyncio.Task[None]] = []
        self.lost: set[Way] = set()
        """The directions in which something was swallowed: nothing may pass there any more."""

    def reset(self) -> None:
        for writer in self.writers:
            connected: socket.socket | None = writer.get_extra_info("socket")
            with suppress(OSError):
                if connected is not None:
                    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
        for task in self.tasks:
            task.cancel()


class Link:
    """A port of the loopback address that leads to ``target``, host and port. Troubles may overlap."""

    def __init__(
        self, target: tuple[str, int], clock: Clock, translator: Callable[[], Translate] | None = None
    ) -> None:
        self.target, self._clock, self._translator = target, clock, translator
        self._pairs: set[_Pair] = set()
        self._troubles: list[Trouble] = []
        self._changed = asyncio.Event()
        self._free_s: dict[Way, float] = {}
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End everything."""
        if self._server is not None:
            self._server.close()
        pairs = list(self._pairs)
        self.reset()
        await asyncio.gather(*(task for pair in pairs for task in pair.tasks), return_exceptions=True)

    def reset(self) -> None:
        """Cut every connection."""
        for pair in list(self._pairs):
            pair.reset()

    def begin(self, trouble: Trouble) -> None:
        """From now on. A cut ends every connection, and refuses new ones for as long as it lasts."""
        self._troubles.append(trouble)
        if trouble.kind == "cut":
            self.reset()

    def end(self, trouble: Trouble) -> None:
        """It is over: what was held back goes on, what lost something is cut."""
        self._troubles.remove(trouble)
        if trouble.kind == "half-open":
            for pair in [pair for pair in self._pairs if pair.lost]:
                pair.reset()
        self._changed.set()
        self._changed = asyncio.Event()

    def own_ports(self) -> list[int]:
        """The local ports of the connections to the server, by which it can tell them apart."""
        names = [writer.get_extra_info("sockname") for pair in self._pairs for writer in pair.writers[1:]]
        return [name[1] for name in names if name]

    # -- one connection ------------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = _Pair(writer)
        if self._has("cut", "both"):
            pair.reset()
            return
        self._pairs.add(pair)
        self._begin(pair, self._serve(pair, reader))

    def _begin(self, pair: _Pair, work: Coroutine[Any, Any, None]) -> None:
        """A pair is known until nothing runs for it any more: one side may end long after the other."""
        task = asyncio.ensure_future(work)
        pair.tasks.append(task)
        task.add_done_callback(lambda _: self._forget(pair))

    def _forget(self, pair: _Pair) -> None:
        if all(task.done() for task in pair.tasks):
            self._pairs.discard(pair)

    async def _serve(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        await self._while_held("to server")
        try:
            there, to_server = await asyncio.open_connection(*self.target)
        except OSError:
            _end(pair)
            return
        pair.writers.append(to_server)
        translate = self._translator() if self._translator else None
        self._begin(pair, self._carry(pair, reader, to_server, "to server", None))
        self._begin(pair, self._carry(pair, there, pair.writers[0], "to client", translate))

    async def _carry(
        self,
        pair: _Pair,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        way: Way,
        translate: Translate | None,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                if await self._lets_through(pair, way):
                    await self._pass_on(translate(data) if translate else data, writer, way)
            await self._while_held(way)
        if way not in self._lost(pair, way):  # otherwise the other side does not hear of the end
            _end(pair)

    async def _lets_through(self, pair: _Pair, way: Way) -> bool:
        if way in self._lost(pair, way):
            return False
        await self._while_held(way)
        delay_s = sum(t.delay_s for t in self._troubles if t.kind == "slow" and t.concerns(way))
        if delay_s:
            await self._clock.sleep(delay_s)
        return True

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter, way: Way) -> None:
        while data:
            narrow = [t.bytes_per_s for t in self._troubles if t.kind == "narrow" and t.concerns(way)]
            piece = data[: _NARROW_PIECE if narrow else len(data)]
            if narrow:
                await self._squeeze(len(piece) / min(narrow), way)
            writer.write(piece)
            await writer.drain()
            data = data[len(piece) :]

    async def _squeeze(self, seconds: float, way: Way) -> None:
        """Wait until the pieces before this one, and it, have passed: all connections of the link share its width."""
        now = self._clock.monotonic()
        self._free_s[way] = max(self._free_s.get(way, now), now) + seconds
        await self._clock.sleep(self._free_s[way] - now)

    def _lost(self, pair: _Pair, way: Way) -> set[Way]:
        if self._has("half-open", way):
            pair.lost.add(way)
        return pair.lost

    async def _while_held(self, way: Way) -> None:
        while self._has("hold", way):
            await self._changed.wait()

    def _has(self, kind: Kind, way: Way) -> bool:
        return any(trouble.kind == kind and trouble.concerns(way) for trouble in self._troubles)


def _end(pair: _Pair) -> None:
    """Close both sides in the ordinary way: what was handed on before still arrives."""
    for writer in pair.writers:
        writer.close()
