"""Counts the statements that clients of a PostgreSQL send, on the wire, whoever sends them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from itertools import count

from tests.leases.forwarder import Forwarder

_STARTUP = 196_608  # protocol 3.0
_STATEMENTS = b"EQ"  # Execute, and a simple query


class _Frontend:
    """What one client sends: messages of a type, a length and a body, after greetings that have no type."""

    def __init__(self) -> None:
        self._rest = b""
        self._greeted = False

    def statements(self, data: bytes) -> int:
        """How many statements end in these bytes."""
        self._rest += data
        found = 0
        while (message := self._next()) is not None:
            found += message[:1] in (b"E", b"Q") and self._greeted
            if not self._greeted:
                self._greeted = int.from_bytes(message[4:8], "big") == _STARTUP
        return found

    def _next(self) -> bytes | None:
        head = 1 if self._greeted else 0
        if len(self._rest) < head + 4:
            return None
        size = head + int.from_bytes(self._rest[head : head + 4], "big")
        if len(self._rest) < size:
            return None
        message, self._rest = self._rest[:size], self._rest[size:]
        return message


class CountingForwarder(Forwarder):
    """``times_s`` has the moments of statements by connection, from when it was last cleared."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.times_s: dict[int, list[float]] = defaultdict(list)
        self._numbers = count()

    def per_second(self, watched_s: float) -> float:
        """Statements per second in the long run, of all connections, from what was seen in ``watched_s``.

        A connection asks at a steady pace, so that its rate is that between its first statement and its last.
        """
        rates = []
        for moments in self.times_s.values():
            steady = len(moments) > 2
            rates.append((len(moments) - 1) / (moments[-1] - moments[0]) if steady else len(moments) / watched_s)
        return sum(rates)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_server: bool) -> None:
        if from_server:
            await super()._pump(reader, writer, from_server)
            return
        number, frontend = next(self._numbers), _Frontend()
        while data := await reader.read(65536):
            self.times_s[number] += [time.monotonic()] * frontend.statements(data)
            writer.write(data)
            await writer.drain()
