"""The machines on which relays run: they are killed and start again, are paused and wake, or are told to stop."""

from __future__ import annotations

import asyncio
import random
from contextvars import Context

from fencepost.events import Event
from fencepost.relay.service import Relay
from fencepost.testing.simulation.clock import VirtualClock
from fencepost.testing.simulation.loop import Life, Process, VirtualLoop
from fencepost.testing.simulation.scenario import Scenario
from fencepost.testing.simulation.servers import RemoteBroker, RemoteLeases, RemoteSource, Servers

_LOOK_S = 0.1


class Machine:
    """Runs one relay process, which serves every lane. ``processes`` are all it ever ran."""

    def __init__(self, name: str, servers: Servers, scenario: Scenario, loop: VirtualLoop, clock: VirtualClock) -> None:
        self.name, self.clock = name, clock
        self._servers, self._scenario, self._loop = servers, scenario, loop
        self._starts = 0
        self._stopping = False
        self._relays: list[Relay] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.process = Process(name, loop)
        self.processes = [self.process]

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self._starts and self.process.life is not Life.DEAD:
            return
        self._starts += 1
        self._stopping = False
        if self._starts > 1:
            self.process = Process(self.name, self._loop)
            self.processes.append(self.process)
        owner = f"{self.name}:{self._starts}"
        self._relays = [self._relay(index, owner) for index in range(self._scenario.lanes)]
        self.tasks = [self.process.spawn(relay.run()) for relay in self._relays]
        self._servers.record.say(f"{owner} starts")

    def crash(self, again_in_s: float) -> None:
        """kill -9; the process is started again after a while."""
        if self.process.life is not Life.DEAD:
            self.process.crash()
            for server in self._servers.all:
                for connection in [c for c in server.connections if c.client is self.process]:
                    connection.close()
            self._loop.call_later(again_in_s, self.start, context=Context())

    def pause(self, for_s: float) -> None:
        """SIGSTOP, and SIGCONT after a while."""
        if self.process.life is Life.RUNNING:
            self.process.pause()
            self._loop.call_later(for_s, self.process.wake, context=Context())

    def stop(self, again_in_s: float | None = None) -> None:
        """SIGTERM; the process is started again after a while, once it has ended."""
        self._stopping = True
        for relay in self._relays:
            relay.stop()
        if again_in_s is not None:
            self._loop.call_later(again_in_s, self._start_when_ended, self.process, context=Context())

    @property
    def running(self) -> bool:
        """Whether any of its relays is at work."""
        return self.process.life is not Life.DEAD and any(not task.done() for task in self.tasks)

    @property
    def steady(self) -> bool:
        """Whether it runs, and is to go on running."""
        return self.process.life is Life.RUNNING and self.running and not self._stopping

    def _start_when_ended(self, stopping: Process) -> None:
        if stopping is not self.process:
            return
        if self.running:
            self._loop.call_later(_LOOK_S, self._start_when_ended, stopping, context=Context())
        else:
            self.process.crash()
            self.start()

    def _relay(self, index: int, owner: str) -> Relay:
        record = self._servers.record

        def observe(event: Event) -> None:
            record.observe(owner, event)

        return Relay(
            RemoteSource(self._servers, self.process),
            RemoteBroker(self._servers, self.process),
            RemoteLeases(self._servers, self.process),
            self._scenario.lane(index),
            owner,
            self._scenario.options(),
            observe,
            self.clock,
        )


def drift(scenario: Scenario, chance: random.Random) -> float:
    """The rate of one machine's clock."""
    return 1.0 + chance.uniform(-scenario.drift, scenario.drift)
