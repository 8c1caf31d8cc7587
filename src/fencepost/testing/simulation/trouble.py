"""Who makes trouble: at the moments of calls, and out of the blue."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass

from fencepost.databases.memory import Snapshot
from fencepost.ports import Delivery
from fencepost.receipt import RECEIPTS_KEPT
from fencepost.testing.simulation.clock import VirtualClock
from fencepost.testing.simulation.loop import Life, Process
from fencepost.testing.simulation.machines import Machine
from fencepost.testing.simulation.network import Server, Weather
from fencepost.testing.simulation.scenario import BAD, Scenario
from fencepost.testing.simulation.servers import Servers

_DELICATE = {"publish": 3.0, "settle": 3.0, "take_over": 3.0, "in_doubt": 2.0, "pending": 0.3, "wait": 0.1}
"""How much more often than at other calls a relay is struck at these."""

_REFUSED = 0.6
"""How often the broker refuses a message of the bad topic."""

_SNAPSHOT_EVERY_S = 0.4
_SAFE_RECEIPTS = RECEIPTS_KEPT - 16
"""A database that falls back by more handoffs than the broker keeps receipts of has lost more than is promised."""


@dataclass(frozen=True, slots=True)
class _Past:
    """What the database was, how many commits it had, and how many receipts each lane."""

    snapshot: Snapshot
    commits: int
    receipts: dict[int, int]


class Trouble:
    """All of it is drawn from ``chance``."""

    def __init__(
        self,
        scenario: Scenario,
        servers: Servers,
        machines: list[Machine],
        applications: list[tuple[str, VirtualClock]],
        chance: random.Random,
    ) -> None:
        self._scenario, self._servers, self._machines = scenario, servers, machines
        self._applications, self._chance = applications, chance
        self._network, self._record, self._loop = servers.network, servers.record, servers.network.loop
        self._past: list[_Past] = []
        self._brewing = False

    async def run(self) -> None:
        """Make trouble for as long as the scenario says, then make everything well."""
        self._brewing = True
        self._network.weather = _weather(self._scenario)
        self._network.struck = self._strike
        self._servers.refuses = lambda message: message.topic == BAD and self._chance.random() < _REFUSED
        remembering = asyncio.ensure_future(self._remember())
        until_s = self._loop.now_s + self._scenario.trouble_s
        while self._loop.now_s < until_s:
            await _sleep(self._chance.uniform(0, 2 * self._scenario.unrest_s))
            self._chance.choice(self._kinds())()
        remembering.cancel()
        self._make_well()

    def _make_well(self) -> None:
        self._brewing = False
        self._network.weather = Weather()
        self._network.struck = _nothing
        self._network.heal_all()
        for server in self._servers.all:
            self._servers.start(server)
            if server.process is not None:
                server.process.wake()
            for connection in list(server.connections):
                if connection.stalled:  # keep-alive finds out in the end
                    connection.reset()
        self._servers.refuses = lambda _: False
        for machine in self._machines:
            machine.process.wake()
            machine.start()
        self._record.say("-- no more trouble")

    # -- at the moments of a call --------------------------------------------------------------------------------------

    def _strike(self, client: Process, call: str, moment: str) -> None:
        machine = next((m for m in self._machines if m.process is client), None)
        if machine is None or client.life is not Life.RUNNING:
            return
        if self._chance.random() < self._scenario.struck * _DELICATE.get(call, 1.0):
            kind = self._chance.choice((self._crash, self._pause))
            kind(machine, f" {moment} {call}")

    def _crash(self, machine: Machine, when: str = "") -> None:
        self._record.fault("crash", f"{machine.name}{when}")
        machine.crash(self._chance.choice([0.01, 0.3, 3.0]))

    def _pause(self, machine: Machine, when: str = "") -> None:
        length_s = self._chance.uniform(0, 3) * self._scenario.ttl_s
        self._record.fault("pause", f"{machine.name}{when} for {length_s:.2f} s")
        machine.pause(length_s)

    # -- out of the blue -----------------------------------------------------------------------------------------------

    def _kinds(self) -> list[Callable[[], None]]:
        kinds: list[Callable[[], None]] = [
            lambda: self._crash(self._a_machine()),
            lambda: self._pause(self._a_machine()),
            self._stop_a_machine,
            self._part,
            self._part,
            self._restart,
            self._hang,
            self._cut,
            self._turn_clock,
        ]
        if self._scenario.delivery is not Delivery.PLAIN:  # a plain broker cannot tell what it has seen before
            kinds += [self._fall_back] * 2
        if self._scenario.delivery is Delivery.ATOMIC:  # the others rest on the lease
            kinds += [self._steal, self._expire]
        return kinds

    def _a_machine(self) -> Machine:
        return self._chance.choice(self._machines)

    def _stop_a_machine(self) -> None:
        machine = self._a_machine()
        self._record.fault("stop", machine.name)
        machine.stop(again_in_s=self._chance.choice([0.2, 2.0]))

    def _part(self) -> None:
        clients = [*(m.name for m in self._machines), *(name for name, _ in self._applications)]
        client, server = self._chance.choice(clients), self._chance.choice(self._servers.all).name
        length_s = self._chance.choice([0.3, 1.0, 2.0 * self._scenario.ttl_s])
        self._record.fault("partition", f"{client} from the {server} for {length_s:.1f} s")
        self._network.part(client, server)
        self._later(length_s, lambda: self._network.heal(client, server))

    def _restart(self) -> None:
        server = self._chance.choice(self._servers.all)
        length_s = self._chance.choice([0.05, 0.5, 2.0])
        self._record.fault("restart", f"the {server.name}, down for {length_s:.2f} s")
        self._servers.stop(server)
        self._later(length_s, lambda: self._servers.start(server))

    def _hang(self) -> None:
        server = self._chance.choice(self._servers.all)
        length_s = self._chance.uniform(0.1, 2.0 * self._scenario.ttl_s)
        if server.process is not None:
            self._record.fault("hang", f"the {server.name} for {length_s:.2f} s")
            server.process.pause()
            self._later(length_s, server.process.wake)

    def _cut(self) -> None:
        server: Server = self._chance.choice(self._servers.all)
        self._record.fault("cut", f"every connection to the {server.name}")
        for connection in list(server.connections):
            connection.reset()

    def _turn_clock(self) -> None:
        name, clock = self._chance.choice([*((m.name, m.clock) for m in self._machines), *self._applications])
        clock.wrong_s = self._chance.choice([-600.0, -1.0, 0.0, 1.0, 600.0])
        self._record.fault("clock jump", f"{name} is wrong by {clock.wrong_s:g} s")

    def _steal(self) -> None:
        lane = self._scenario.lane(self._chance.randrange(self._scenario.lanes))
        self._record.fault("lease stolen", lane.name)
        self._servers.terms.steal(lane.name, "somebody", self._chance.uniform(0, self._scenario.ttl_s))

    def _expire(self) -> None:
        lane = self._scenario.lane(self._chance.randrange(self._scenario.lanes))
        self._record.fault("lease ended early", lane.name)
        self._servers.terms.expire(lane.name)

    def _fall_back(self) -> None:
        past = self._chance.choice(self._past) if self._past else None
        if past is None or self._servers.database.process is None or not self._recent(past):
            return
        self._record.fault("fall-back", f"the database forgets all but the first {past.commits} commits")
        for connection in list(self._servers.database.connections):
            connection.reset()
        self._servers.rows.fall_back(past.snapshot)
        self._record.fall_back(past.commits)
        self._past.clear()

    def _recent(self, past: _Past) -> bool:
        now = self._receipts()
        return all(now[index] - past.receipts[index] < _SAFE_RECEIPTS for index in now)

    async def _remember(self) -> None:
        while True:
            await _sleep(_SNAPSHOT_EVERY_S)
            rows, record = self._servers.rows, self._record
            self._past = [*self._past[-4:], _Past(rows.snapshot(), len(record.committed), self._receipts())]

    def _receipts(self) -> dict[int, int]:
        """How many receipts each lane has ever had."""
        lanes = range(self._scenario.lanes)
        last = {index: self._servers.topics.receipts(self._scenario.lane(index)).last for index in lanes}
        return {index: receipt.counter if receipt else 0 for index, receipt in last.items()}

    def _later(self, delay_s: float, act: Callable[[], object]) -> None:
        self._loop.call_later(delay_s, lambda: act() if self._brewing else None, context=Context())


def _weather(scenario: Scenario) -> Weather:
    bad = scenario.weather
    calm = scenario.delivery is not Delivery.ATOMIC
    return Weather(
        reset_before=0.003 * bad,
        reset_after=0.006 * bad,
        stall=0.002 * bad,
        slow=0.03 * bad,
        twice=0.01 * bad,
        # Where nothing is fenced, what is sent while the lease is trusted must arrive before the lease has ended.
        slow_most_s=0.05 * scenario.ttl_s if calm else 2.0,
    )


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _nothing(*_: object) -> None:
    """Nobody is struck."""
