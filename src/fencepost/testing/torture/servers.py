"""Servers that a run may restart: the NATS server that it started itself, and those for which it was given commands."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from typing import Protocol

from fencepost.clock import Clock
from fencepost.demo.nats_server import NatsServer
from fencepost.errors import ConfigurationError, FencepostError
from fencepost.testing.torture.records import Server
from fencepost.testing.torture.stutter import stutter

_COMMAND_S = 120.0


class Restartable(Protocol):
    """A server that can be ended and started again."""

    async def restart(self, *, by_force: bool, down_s: float) -> None:
        """End it, by SIGKILL or in its ordinary way, and start it again after ``down_s`` seconds.

        Raises FencepostError where it does not come back.
        """
        ...


class OwnNats:
    """The server that this process started."""

    def __init__(self, server: NatsServer, clock: Clock) -> None:
        self._server, self._clock = server, clock

    async def restart(self, *, by_force: bool, down_s: float) -> None:
        """See Restartable."""
        await (self._server.kill() if by_force else self._server.stop())
        await self._clock.sleep(down_s)
        await self._server.start()

    async def stutter(self, number: int, *, seconds: float, stopped_s: float) -> None:
        """See Stuttering."""
        await stutter(self._server.send, seconds, stopped_s, self._clock)


class ByCommand:
    """A server that somebody else runs. Where there are two commands, the first one is the one by force."""

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = [shlex.split(command) for command in commands]

    async def restart(self, *, by_force: bool, down_s: float) -> None:
        """See Restartable; how long it is down is the command's affair."""
        command = self._commands[0 if by_force else -1]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_COMMAND_S):
                said, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            raise FencepostError(f"{shlex.join(command)} did not end within {_COMMAND_S:g} s") from None
        if process.returncode:
            words = said.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise FencepostError(f"{shlex.join(command)} ended with {process.returncode}: {words[-1]}")


def restartable(
    own: OwnNats | None, restart_database: Sequence[str], restart_broker: Sequence[str]
) -> Mapping[Server, Restartable]:
    """Who can be restarted, and how. Raises ConfigurationError where a command cannot be read."""
    found: dict[Server, Restartable] = {}
    if own is not None:
        found["broker"] = own
    try:
        if restart_database:
            found["database"] = ByCommand(restart_database)
        if restart_broker:
            found["broker"] = ByCommand(restart_broker)
    except ValueError as error:
        raise ConfigurationError(f"the command that restarts a server cannot be read: {error}") from error
    return found
