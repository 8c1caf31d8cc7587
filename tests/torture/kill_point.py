"""Relays that kill or pause themselves at a named point: processes of their own, the real parts.

    python -m tests.torture.kill_point kill CONFIG POINT NTH [POINT NTH]...
    python -m tests.torture.kill_point pause CONFIG POINT NTH

``kill``: one relay after the other, each in a process of its own that dies by SIGKILL. They are forked from one that
has loaded everything, which takes longer than all that they do; it ends with 0 where each of them died as it should.
``pause``: this process is the relay, and stands still by SIGSTOP.

The points stand where a crash hurts most. They are reached by wrapping the real session and the real plug-ins' own
calls; nothing else is changed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fencepost import app
from fencepost.brokers.kafka.pair import Pair
from fencepost.brokers.nats import atomic
from fencepost.config import load
from fencepost.events import Event, TakenOver, ignore
from fencepost.message import Position, Stored
from fencepost.ports import Lane, Session, Source

POINTS = ("after fetch", "after produce before commit", "after commit before settle", "during settle")


class Trap:
    """Strikes the ``nth`` time that its point is passed."""

    def __init__(self, point: str, nth: int, number: signal.Signals) -> None:
        self.point, self._left, self._number = point, nth, number

    def passed(self, point: str) -> bool:
        """True when it is time to strike here."""
        if point != self.point:
            return False
        self._left -= 1
        return self._left == 0

    def strike(self) -> None:
        """The process is gone, or stands still until somebody wakes it."""
        print(f"struck {self.point}", flush=True)
        os.kill(os.getpid(), self._number)

    def at(self, point: str) -> None:
        """Strike here, when it is time."""
        if self.passed(point):
            self.strike()


class TrappedSession:
    """A session with traps around ``pending`` and ``settle``."""

    def __init__(self, session: Session, trap: Trap) -> None:
        self._session, self._trap = session, trap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def pending(self, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        rows = await self._session.pending(lane, limit, after)
        if rows:
            self._trap.at("after fetch")
        return rows

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        self._trap.at("after commit before settle")
        if self._trap.passed("during settle"):
            asyncio.get_running_loop().call_later(random.uniform(0, 0.003), self._trap.strike)
        return await self._session.settle(rows)


class TrappedSource:
    """A source whose sessions are trapped."""

    def __init__(self, source: Source, trap: Trap) -> None:
        self._source, self._trap = source, trap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def connect(self) -> Any:
        return TrappedSession(await self._source.connect(), self._trap)


def trap_kafka(trap: Trap) -> None:
    """Between the last produce of a transaction and its commit."""
    commit: Callable[..., None] = Pair.commit

    def trapped(self: Pair, *args: Any) -> None:
        for producer in self._producers:
            producer.flush()  # everything is at the broker, only the commit is missing
        trap.at("after produce before commit")
        commit(self, *args)

    Pair.commit = trapped  # type: ignore[method-assign, assignment]


def trap_nats(trap: Trap) -> None:
    """Between the messages of a batch and the receipt that commits it."""
    pieces = atomic.AtomicHandoff._pieces
    atomic.PIECE_BYTES = 1  # each message is sent, and answered, alone

    def trapped(self: Any, *args: Any) -> Any:
        for frames, number in pieces(self, *args):
            if number > 1:
                trap.at("after produce before commit")
            yield frames, number

    atomic.AtomicHandoff._pieces = trapped  # type: ignore[assignment]


async def main(config_file: str, trap: Trap) -> None:
    """Run the relay of a configuration with its trap."""
    config = load(Path(config_file), dict(os.environ))
    trap_kafka(trap)
    trap_nats(trap)

    def observe(event: Event) -> None:
        if isinstance(event, TakenOver):
            print("leading", flush=True)

    relay = app.relay(config, observe)
    relay._source = TrappedSource(relay._source, trap)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, relay.stop)
    await relay.run()


def run(config_file: str, trap: Trap) -> None:
    """Be the relay, to its end."""
    asyncio.run(main(config_file, trap))


def kill_each(config_file: str, traps: Iterable[tuple[str, int]]) -> None:
    """A process for each trap, which is gone before the next one starts."""
    app.relay(load(Path(config_file), dict(os.environ)), ignore)  # it loads what a relay needs, and connects to nothing
    for point, nth in traps:
        pid = os.fork()
        if not pid:
            run(config_file, Trap(point, nth, signal.SIGKILL))
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if ended != -signal.SIGKILL:
            sys.exit(f"a relay ended with {ended} before its trap {point!r} was sprung")


if __name__ == "__main__":
    how, file, *words = sys.argv[1:]
    wanted = [(point, int(nth)) for point, nth in zip(words[::2], words[1::2], strict=True)]
    if how == "kill":
        kill_each(file, wanted)
    else:
        ((point, nth),) = wanted
        run(file, Trap(point, nth, signal.SIGSTOP))
