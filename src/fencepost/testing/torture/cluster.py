"""A broker of three nodes on this machine, of the run's own: one node at a time is ended and started again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fencepost.clock import Clock
from fencepost.demo.processes import ended, last_line, send, start
from fencepost.errors import Unavailable
from fencepost.testing.torture.stutter import stutter

NODES = 3
TURN_S = 45.0
"""A node that must wait longer for its turn stays."""
_GRACE_S = 30.0
_WHOLE_S = 120.0
_LOOK_S = 0.1


class Node:
    """One node: the command that starts it, and its process. Both leave their words in ``log``."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name, self.log, self._command = name, log, command
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, without waiting until it is ready."""
        self._process = await start(self._command, self.log)

    async def end(self, *, by_force: bool) -> None:
        """End it, by SIGKILL or in its ordinary way."""
        if self._process is None:
            return
        if by_force:
            send(self._process, signal.SIGKILL)
            await self._process.wait()
        else:
            await ended(self._process, grace_s=_GRACE_S)

    def send(self, number: signal.Signals) -> None:
        """A signal; nothing where it does not run."""
        if self._process is not None:
            send(self._process, number)

    def check(self) -> None:
        """Raise Unavailable where it has ended by itself."""
        if self._process is not None and self._process.returncode is not None:
            raise Unavailable(f"{self.name} ended with {self._process.returncode}: {last_line(self.log)}")


@dataclass(frozen=True, slots=True)
class Nodes:
    """What a kind of broker makes a cluster of. ``whole`` is true once every node has caught up with the others."""

    url: str
    settings: Mapping[str, object]
    """Keys of ``[broker]`` by which what the relays create is on all nodes."""
    nodes: Sequence[Node]
    whole: Callable[[], Awaitable[bool]]


class Cluster:
    """See the module. At most one node is away, or has not caught up yet, at any moment."""

    def __init__(self, made: Nodes, clock: Clock) -> None:
        self.url, self.settings = made.url, made.settings
        self._nodes, self._whole, self._clock = made.nodes, made.whole, clock
        self._one_away = asyncio.Lock()

    @property
    def logs(self) -> list[Path]:
        """The nodes' logs."""
        return [node.log for node in self._nodes]

    async def start(self) -> None:
        """All of them. Raises Unavailable where they do not find each other."""
        for node in self._nodes:
            await node.start()
        await self._until_whole()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until all nodes are there; while the block lasts nobody else takes one away.

        Raises Unavailable where that takes too long.
        """
        try:
            async with asyncio.timeout(TURN_S):
                await self._one_away.acquire()
        except TimeoutError:
            raise Unavailable(f"another node was away for {TURN_S:g} s") from None
        try:
            yield
        finally:
            self._one_away.release()

    async def restart(self, number: int, *, by_force: bool, down_s: float) -> None:
        """End a node, start it again after ``down_s`` seconds, and wait until it has caught up: in one's turn.

        Raises Unavailable where it does not come back.
        """
        node = self._nodes[number]
        await node.end(by_force=by_force)
        await self._clock.sleep(down_s)
        await node.start()
        await self._until_whole()

    async def stutter(self, number: int, *, seconds: float, stopped_s: float) -> None:
        """See Stuttering."""
        await stutter(self._nodes[number].send, seconds, stopped_s, self._clock)

    async def stop(self) -> None:
        """All of them, by force: nobody needs their data any more."""
        await asyncio.gather(*(node.end(by_force=True) for node in self._nodes))

    async def _until_whole(self) -> None:
        give_up = self._clock.monotonic() + _WHOLE_S
        while not await self._whole():
            for node in self._nodes:
                node.check()
            if self._clock.monotonic() > give_up:
                said = "; ".join(f"{node.name}: {last_line(node.log)}" for node in self._nodes)
                raise Unavailable(f"the cluster is not whole within {_WHOLE_S:g} s: {said}")
            await self._clock.sleep(_LOOK_S)
