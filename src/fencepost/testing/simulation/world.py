"""One simulation: everything is made, trouble is made, everything is made well, and then it must come to rest."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass

from fencepost.errors import FencepostError
from fencepost.testing.simulation import checkers
from fencepost.testing.simulation.applications import Application
from fencepost.testing.simulation.clock import VirtualClock
from fencepost.testing.simulation.loop import Process, VirtualLoop
from fencepost.testing.simulation.machines import Machine, drift
from fencepost.testing.simulation.network import Network
from fencepost.testing.simulation.record import Record
from fencepost.testing.simulation.scenario import Scenario
from fencepost.testing.simulation.servers import Servers, Settings
from fencepost.testing.simulation.trouble import Trouble

_REST_S = 60.0
"""How long it may take, once the trouble is over, until nothing waits any more."""
_STOP_S = 20.0
_LOOK_S = 0.1
_TURNS = 10_000

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a seed. ``digest`` is of the history: the same seed gives the same one."""

    scenario: Scenario
    violations: list[str]
    marks: Counter[str]
    faults: Counter[str]
    messages: int
    published: int
    virtual_s: float
    digest: int
    history: list[str]


def simulate(scenario: Scenario) -> Result:
    """Run one scenario to its end and judge it. Blocks; takes some hundredths of a second."""
    loop = VirtualLoop()
    world = _World(scenario, loop)
    loop.set_exception_handler(lambda _, context: world.unexpected(context))
    with _uncollected():
        try:
            loop.run_until_complete(loop.create_task(world.run(), context=Context()))
            return world.result()
        finally:
            world.put_away()
            loop.close()


@contextmanager
def _uncollected() -> Iterator[None]:
    """The garbage collector would look again and again at tasks that all live until the end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _World:
    def __init__(self, scenario: Scenario, loop: VirtualLoop) -> None:
        self.scenario, self.loop = scenario, loop
        self.record = Record(lambda: loop.now_s)
        url = f"memory://simulation-{next(_numbers)}"
        settings = Settings(url=url, delivery=scenario.delivery, evidence=scenario.evidence, timeout_s=1.0)
        self.network = Network(loop, self._chance("network"))
        self.network.answered_twice = lambda: self.record.mark("reply arrived twice")
        self.servers = Servers(settings, self.network, self.record, VirtualClock(loop, self._chance("servers")))
        self.machines = [self._machine(f"relay-{n}") for n in range(1, scenario.relays + 1)]
        self.applications = [self._application(f"application-{n}") for n in range(1, scenario.writers + 1)]

    def _chance(self, who: str) -> random.Random:
        return random.Random(f"{who} of {self.scenario.seed}")

    def _clock(self, who: str) -> VirtualClock:
        chance = self._chance(f"clock of {who}")
        return VirtualClock(
            self.loop, chance, rate=drift(self.scenario, chance), wrong_s=chance.choice([0.0, 0.0, -30.0, 30.0])
        )

    def _machine(self, name: str) -> Machine:
        return Machine(name, self.servers, self.scenario, self.loop, self._clock(name))

    def _application(self, name: str) -> Application:
        process, chance = Process(name, self.loop), self._chance(name)
        return Application(process, self.servers, self.scenario, self._clock(name), chance)

    async def run(self) -> None:
        record, scenario = self.record, self.scenario
        record.say(str(scenario))
        for machine in self.machines:
            machine.start()
        for application in self.applications:
            application.process.spawn(application.run())
        clocks = [(a.process.name, a.clock) for a in self.applications]
        await Trouble(scenario, self.servers, self.machines, clocks, self._chance("trouble")).run()
        await self._rest()
        await self._stop()

    async def _rest(self) -> None:
        until_s = self.loop.now_s + _REST_S
        while self.loop.now_s < until_s and not self._at_rest():
            await _sleep(_LOOK_S)
        if not all(a.done for a in self.applications):
            self.record.stuck.append("an application never ended")

    def _at_rest(self) -> bool:
        written = all(a.done for a in self.applications)
        return written and not self.servers.rows.rows and all(m.steady for m in self.machines)

    async def _stop(self) -> None:
        for machine in self.machines:
            machine.stop()
        until_s = self.loop.now_s + _STOP_S
        while self.loop.now_s < until_s and any(m.running for m in self.machines):
            await _sleep(_LOOK_S)
        self.record.stuck += [f"{m.name} does not stop" for m in self.machines if m.running]

    def result(self) -> Result:
        record = self.record
        return Result(
            scenario=self.scenario,
            violations=checkers.check(self.scenario, record, self.servers.rows),
            marks=record.marks,
            faults=record.faults,
            messages=len(record.committed) + len(record.forgotten),
            published=len(record.deliveries),
            virtual_s=self.loop.now_s,
            digest=zlib.crc32("\n".join(record.lines).encode()),
            history=record.lines,
        )

    def unexpected(self, context: Mapping[str, object]) -> None:
        """What asyncio says of an error that nobody took."""
        error = context.get("exception")
        if not self.record.over and error is not None and not isinstance(error, FencepostError):
            self.record.defects.append(f"{context.get('message')}: {type(error).__name__}: {error}")

    def put_away(self) -> None:
        """End every task in the ordinary way, those of dead processes too, so that nothing is left behind."""
        self.record.over = True
        machines = [process for machine in self.machines for process in machine.processes]
        for process in (*machines, *self.servers.processes, *(a.process for a in self.applications)):
            process.revive()
        for server in self.servers.all:
            self.servers.stop(server)
        for _ in range(_TURNS):
            unfinished = self.loop.unfinished()
            if not unfinished:
                break
            for task in unfinished:
                task.cancel()
            self.loop.run_until_complete(self.loop.create_task(_sleep(0.01), context=Context()))
        self.servers.forget()


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)
