"""Which fault comes when: drawn from the seed alone, so that the same seed and settings give the same schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fencepost.demo.chance import Chance
from fencepost.testing.torture.proxy import Way
from fencepost.testing.torture.records import Fault, Kind, Server, Whom

QUIET_S = 3.5
"""Before and after a kill or a pause that is to be measured, nothing else happens."""

_WAYS: tuple[Way, ...] = ("both", "to server", "to client")
_TOGETHER = 0.2
_MEASURED = 0.7
_NEW_RELAY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Possible:
    """What can be done here: network faults towards these servers, restarts of these, sessions that can be ended.

    ``writers``: the writers' connections to the database go through a proxy, too.
    """

    network: tuple[Server, ...] = ()
    writers: bool = False
    terminate: bool = False
    restart: tuple[Server, ...] = ()
    nodes: int = 0
    """The broker is a cluster of so many, of which one at a time may go."""
    stutter: bool = False
    """The broker's processes can be stopped for moments."""
    standbys: bool = True
    fall_back: bool = False


def draw(seed: int, seconds: float, possible: Possible, every_s: float, ttl_s: float) -> tuple[Fault, ...]:
    """The faults of a run of ``seconds``, in order; ``every_s`` is the mean time between two. The last one is over in
    time.
    """
    chance = Chance(seed, "schedule")
    kinds = _kinds(possible, chance)
    faults: list[Fault] = []
    at_s, free_s = min(2.0, seconds / 10), 0.0
    while True:
        kind, whom, server = next(kinds)
        measured = kind in ("kill", "pause") and whom == "leader" and chance.happens(_MEASURED)
        if measured:
            at_s = max(at_s, free_s + QUIET_S)
        fault = _fault(len(faults) + 1, at_s, (kind, whom, server), chance, ttl_s, possible.nodes)
        if fault.at_s + fault.seconds > seconds:
            return tuple(faults)
        faults.append(fault)
        free_s = max(free_s, at_s + fault.seconds + (_NEW_RELAY_S if kind in ("kill", "stop") else 0.0))
        gap_s = chance.between(0.05, 0.5) if chance.happens(_TOGETHER) else chance.between(0.5, 2.2) * every_s
        at_s = free_s + QUIET_S + chance.between(0.0, every_s / 2) if measured else at_s + gap_s


_BOUNDS_S: Mapping[Kind, tuple[float, float]] = {
    "pause": (0.3, 3.0),  # leases, as the next two
    "late": (1.2, 3.0),
    "hold": (0.2, 3.0),
    "cut": (0.0, 2.0),
    "half-open": (0.5, 8.0),
    "slow": (1.0, 6.0),
    "narrow": (1.0, 6.0),
    "node": (0.0, 3.0),
    "stutter": (1.0, 5.0),
    "restart": (0.0, 3.0),
    "fall-back": (0.1, 1.0),
}
_DELAYS_S: Mapping[Kind, tuple[float, float]] = {"slow": (0.005, 0.1), "stutter": (0.02, 0.4)}
_WIDTH = (5_000.0, 100_000.0)  # bytes per second
_What = tuple[Kind, Whom, Server | None]


def _kinds(possible: Possible, chance: Chance) -> Iterator[_What]:
    """What is possible, again and again, each time in another order."""
    while True:
        bag = _bag(possible)
        while bag:
            yield bag.pop(chance.below(len(bag)))


def _bag(possible: Possible) -> list[_What]:
    """One round: kills and pauses of the leader most."""
    often: list[_What] = [("kill", "leader", None), ("pause", "leader", None)]
    bag: list[_What] = [*often, *often, *often, ("kill", "leader", None), ("stop", "leader", None)]
    bag += [("kill", "standby", None)] if possible.standbys else []
    for server in possible.network:
        bag += [("cut", "leader", server), ("half-open", "leader", server), ("hold", "leader", server)]
        bag += [("cut", "relays", server), ("slow", "relays", server), ("narrow", "relays", server)]
    bag += [("late", "leader", "broker"), ("late", "leader", "broker")] if "broker" in possible.network else []
    bag += [("cut", "writers", "database"), ("half-open", "writers", "database")] if possible.writers else []
    bag += [("terminate", "leader", "database")] if possible.terminate else []
    bag += [("fall-back", "database", "database")] * 2 if possible.fall_back else []
    bag += [("node", "broker", "broker")] * (4 if possible.nodes else 0)
    bag += [("stutter", "broker", "broker")] if possible.stutter else []
    for server in possible.restart:
        bag.append(("restart", server, server))
    return bag


def _fault(number: int, at_s: float, what: _What, chance: Chance, ttl_s: float, nodes: int) -> Fault:
    """A fault with everything about it drawn. Every kind draws the same numbers, whether it uses them or not."""
    kind, whom, server = what
    way = _WAYS[chance.below(len(_WAYS))]
    share, delay, by_force, at_once = chance.between(0, 1), chance.between(0, 1), *_coins(chance)
    width, node = chance.between(0, 1), chance.below(max(nodes, 1))
    unit_s = ttl_s if kind in ("pause", "late", "hold") else 1.0
    seconds = 0.0 if kind == "cut" and at_once else _between(_BOUNDS_S.get(kind, (0.0, 0.0)), share) * unit_s
    return Fault(
        number=number,
        at_s=round(at_s, 3),
        kind=kind,
        whom=whom,
        server=server,
        way=way if kind in ("hold", "half-open", "slow", "narrow") else "both",
        seconds=round(seconds, 3),
        delay_s=round(_between(_DELAYS_S.get(kind, (0.0, 0.0)), delay), 3),
        bytes_per_s=round(_between(_WIDTH, width)) if kind == "narrow" else 0.0,
        by_force=by_force or (kind == "node" and at_once),  # most nodes are killed
        node=node if nodes and kind in ("node", "stutter") else None,
    )


def _between(bounds: tuple[float, float], share: float) -> float:
    return bounds[0] + share * (bounds[1] - bounds[0])


def _coins(chance: Chance) -> tuple[bool, bool]:
    return chance.happens(0.5), chance.happens(0.5)
