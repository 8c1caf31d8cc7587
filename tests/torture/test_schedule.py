"""The schedule of a torture: decided by the seed, within its time, of everything that is possible and nothing else."""

from __future__ import annotations

import itertools
from collections import Counter

from fencepost.testing.torture.records import Fault
from fencepost.testing.torture.schedule import QUIET_S, Possible, draw

ALL = Possible(
    network=("database", "broker"), writers=True, terminate=True, restart=("broker", "database"), nodes=3, stutter=True
)
FILE = Possible(network=("broker",), restart=("broker",))


def test_same_seed_same_schedule() -> None:
    assert draw(7, 600, ALL, 4.0, 2.0) == draw(7, 600, ALL, 4.0, 2.0)
    assert draw(7, 600, ALL, 4.0, 2.0) != draw(8, 600, ALL, 4.0, 2.0)


def test_a_longer_run_begins_as_a_shorter_one() -> None:
    short = draw(7, 60, ALL, 4.0, 2.0)
    assert draw(7, 600, ALL, 4.0, 2.0)[: len(short)] == short


def test_every_kind_of_fault_comes_and_is_over_in_time() -> None:
    faults = draw(1, 900, ALL, 4.0, 2.0)
    assert len(faults) > 120
    assert {(f.kind, f.whom, f.server) for f in faults} == {
        ("kill", "leader", None), ("kill", "standby", None), ("stop", "leader", None), ("pause", "leader", None),
        *((kind, "leader", server) for kind in ("cut", "half-open", "hold") for server in ("database", "broker")),
        *((kind, "relays", server) for kind in ("cut", "slow", "narrow") for server in ("database", "broker")),
        ("cut", "writers", "database"), ("half-open", "writers", "database"), ("terminate", "leader", "database"),
        ("restart", "database", "database"), ("restart", "broker", "broker"), ("late", "leader", "broker"),
        ("node", "broker", "broker"), ("stutter", "broker", "broker"),
    }  # fmt: skip
    assert all(f.at_s > 0 and f.at_s + f.seconds <= 900 for f in faults)
    assert [f.number for f in faults] == list(range(1, len(faults) + 1))
    assert Counter((f.kind, f.whom) for f in faults if f.kind != "node").most_common(1)[0][0] == ("kill", "leader")


def test_pauses_last_from_0_3_to_3_leases_and_every_direction_is_half_open() -> None:
    faults = draw(1, 3600, ALL, 4.0, 2.0)
    pauses = [f.seconds for f in faults if f.kind == "pause"]
    assert 0.6 <= min(pauses) < 1.5
    assert 5.0 < max(pauses) <= 6.0
    assert {f.way for f in faults if f.kind == "half-open"} == {"both", "to server", "to client"}
    assert {f.by_force for f in faults if f.kind == "restart"} == {True, False}
    cuts = [f.seconds for f in faults if f.kind == "cut"]
    assert min(cuts) == 0 < max(cuts)


def test_every_node_is_ended_in_either_way_and_stutters() -> None:
    faults = draw(1, 3600, ALL, 4.0, 2.0)
    ended = Counter(f.node for f in faults if f.kind == "node")
    assert set(ended) == {0, 1, 2} == {f.node for f in faults if f.kind == "stutter"}
    assert {f.by_force for f in faults if f.kind == "node"} == {True, False}
    assert {f.node for f in faults if f.kind not in ("node", "stutter")} == {None}
    assert all(0.02 <= f.delay_s <= 0.4 for f in faults if f.kind == "stutter")
    widths = [f.bytes_per_s for f in faults if f.kind == "narrow"]
    assert 5_000 <= min(widths) < 30_000 < 70_000 < max(widths) <= 100_000
    alone = draw(1, 3600, Possible(stutter=True), 4.0, 2.0)
    assert {f.node for f in alone if f.kind == "stutter"} == {None}, "a server that is no cluster"


def test_faults_overlap_and_some_kills_stand_alone() -> None:
    faults = draw(1, 3600, ALL, 4.0, 2.0)
    overlapping = [b for a, b in itertools.pairwise(faults) if b.at_s < a.at_s + a.seconds]
    assert len(overlapping) > len(faults) / 20
    alone = [f for f in faults if f.kind == "kill" and f.whom == "leader" and _is_alone(f, faults)]
    assert len(alone) > sum(f.kind == "kill" for f in faults) / 4


def _is_alone(fault: Fault, faults: tuple[Fault, ...]) -> bool:
    begin, end = fault.at_s - QUIET_S, fault.at_s + QUIET_S
    return not any(f is not fault and f.at_s < end and f.at_s + f.seconds > begin for f in faults)


def test_nothing_impossible() -> None:
    faults = draw(1, 3600, FILE, 4.0, 2.0)
    assert {f.server for f in faults} == {None, "broker"}
    assert not {f.kind for f in faults} & {"terminate", "node", "stutter"}
    assert "writers" not in {f.whom for f in faults}
    alone = draw(1, 3600, Possible(standbys=False), 4.0, 2.0)
    assert {f.kind for f in alone} == {"kill", "pause", "stop"}
    assert {f.whom for f in alone} == {"leader"}


def test_a_fault_in_words() -> None:
    cut = Fault(number=1, at_s=1, kind="half-open", whom="leader", server="broker", way="to client", seconds=2)
    assert str(cut) == "half-open leader - broker (to client) for 2.0 s"
    restart = Fault(number=1, at_s=1, kind="restart", whom="broker", server="broker", by_force=False, seconds=1)
    assert str(restart) == "restart broker (ordinary) for 1.0 s"
    assert str(Fault(number=1, at_s=1, kind="kill", whom="leader")) == "kill leader"
    node = Fault(number=1, at_s=1, kind="node", whom="broker", server="broker", node=2, seconds=0.5)
    assert str(node) == "node broker 3 (SIGKILL) for 0.5 s"
    narrow = Fault(number=1, at_s=1, kind="narrow", whom="relays", server="broker", seconds=2, bytes_per_s=20_000)
    assert str(narrow) == "narrow relays - broker for 2.0 s, 20 kB/s"
    stutter = Fault(number=1, at_s=1, kind="stutter", whom="broker", server="broker", seconds=2, delay_s=0.1)
    assert str(stutter) == "stutter broker for 2.0 s, 100 ms each"
