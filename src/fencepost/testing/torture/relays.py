"""The relays of a run, each with lines of its own to database and broker."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from fencepost.clock import Clock
from fencepost.demo.fleet import Fleet
from fencepost.testing.torture.network import Line, Route
from fencepost.testing.torture.records import Server

_BURIED_AFTER_S = 30.0
_URLS: Mapping[Server, str] = {"database": "FENCEPOST_DATABASE__URL", "broker": "FENCEPOST_BROKER__URL"}


@dataclass(slots=True)
class _Laid:
    """What one relay's lines are, and how they are closed."""

    lines: dict[Server, Line]
    stack: AsyncExitStack
    gone_at: float | None = None


class Relays:
    """Starts relays through proxies. A dead relay's lines stay for a while: the network does not die with it."""

    def __init__(self, fleet: Fleet, routes: Mapping[Server, Route], env: Mapping[str, str], clock: Clock) -> None:
        self.fleet, self._routes, self._env, self._clock = fleet, routes, env, clock
        self._laid: dict[int, _Laid] = {}

    async def start(self) -> int:
        """One more; its pid."""
        await self._bury()
        stack, lines = AsyncExitStack(), dict[Server, Line]()
        for server, route in self._routes.items():
            if not route.why_not:
                lines[server] = await route.lay(stack, self._clock)
        urls = {_URLS[server]: line.url for server, line in lines.items()}
        pid = await self.fleet.start({**self._env, **urls})
        self._laid[pid] = _Laid(lines, stack)
        return pid

    def lines(self, pid: int, server: Server) -> list[Line]:
        """The line of a relay to a server; none where there is no proxy."""
        laid = self._laid.get(pid)
        return [laid.lines[server]] if laid is not None and server in laid.lines else []

    def standbys(self, leader: int | None) -> list[int]:
        """Those that do not lead."""
        return [pid for pid in self.fleet.pids if pid != leader]

    async def close(self) -> None:
        """End the relays in the ordinary way, then their lines."""
        await self.fleet.stop()
        for laid in self._laid.values():
            await laid.stack.aclose()
        self._laid.clear()

    async def _bury(self) -> None:
        now = self._clock.monotonic()
        for pid, laid in list(self._laid.items()):
            if self.fleet.runs(pid):
                continue
            laid.gone_at = laid.gone_at or now
            if now - laid.gone_at > _BURIED_AFTER_S:
                await laid.stack.aclose()
                del self._laid[pid]
