"""What a torture run is asked for, what it does and to whom, and what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fencepost.config import Config
from fencepost.history import Report
from fencepost.ports import Delivery
from fencepost.testing.torture.proxy import Kind as NetworkKind
from fencepost.testing.torture.proxy import Way

Kind = Literal["kill", "stop", "pause", "late", NetworkKind, "terminate", "restart", "node", "stutter", "fall-back"]
Whom = Literal["leader", "standby", "relays", "writers", "database", "broker"]
Server = Literal["database", "broker"]

NETWORK_KINDS: tuple[Kind, ...] = ("cut", "hold", "half-open", "slow", "narrow")
OWN_CLUSTERS = (None, "nats://", "kafka://")
"""What ``broker`` may be where the cluster is the command's own."""
MEANING: Mapping[Kind, str] = {
    "kill": "SIGKILL; started again after half a second",
    "stop": "SIGTERM; started again after half a second",
    "pause": "SIGSTOP, and SIGCONT later",
    "late": "paused, and what it had just sent to the broker arrives when another one has taken over",
    "cut": "its connections are reset, new ones refused for a while",
    "hold": "nothing passes for a while, then everything",
    "half-open": "what is sent is swallowed for a while, then the connections are reset",
    "slow": "everything is delayed for a while",
    "narrow": "so many bytes pass per second and no more, for a while",
    "terminate": "its sessions ended by the server",
    "restart": "the server is ended, by force or in its ordinary way, and started again",
    "node": "one of the broker's nodes is ended, by force or in its ordinary way, and started again",
    "stutter": "the server's process is stopped and woken again and again: a stand-in for a slow disk",
    "fall-back": "the primary is killed, and a standby that misses the last transactions takes its place",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TortureOptions:
    """``database`` and ``broker`` are URLs; otherwise ``config`` names the servers; without any of these a SQLite file
    and a NATS server of the command's own are used.

    ``reader`` is the module that has ``reader(options)`` for the broker, where the demonstration's own readers do not.
    ``every_s`` is the mean time between two faults, ``rate_per_s`` counts transactions. ``restart_database`` and
    ``restart_broker`` are command lines that restart a server and return when it answers. ``report`` is a folder.
    """

    database: str | None = None
    broker: str | None = None
    reader: str | None = None
    config: Config | None = None
    seconds: float = 60.0
    relays: int = 3
    rate_per_s: float = 150.0
    every_s: float = 4.0
    ttl_s: float = 2.0
    seed: int | None = None
    standby: bool = False
    """The database is a PostgreSQL of the command's own, with an asynchronous standby that takes over."""
    cluster: bool = False
    """The broker is a cluster of three nodes of the command's own: NATS, or Kafka where ``broker`` is "kafka://"."""
    restart_database: tuple[str, ...] = ()
    restart_broker: tuple[str, ...] = ()
    report: str | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One line of the schedule. ``at_s`` counts from the beginning; ``seconds`` is how long it lasts.

    ``server`` is which connections a network fault is about. ``by_force`` counts for restarts. ``node`` is which one of
    a cluster, from 0. ``delay_s`` is also how long a stuttering server stands still each time.
    """

    number: int
    at_s: float
    kind: Kind
    whom: Whom
    server: Server | None = None
    way: Way = "both"
    seconds: float = 0.0
    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    by_force: bool = True
    node: int | None = None

    def __str__(self) -> str:
        what = f"{self.kind} {self.whom}"
        if self.kind in NETWORK_KINDS or self.kind == "late":
            what = f"{self.kind} {self.whom} - {self.server}"
            what += f" ({self.way})" if self.way != "both" else ""
        what += f" {self.node + 1}" if self.node is not None else ""
        if self.kind in ("restart", "node"):
            what += " (SIGKILL)" if self.by_force else " (ordinary)"
        what += f" for {self.seconds:.1f} s" if self.seconds else ""
        what += f", {self.bytes_per_s / 1000:.0f} kB/s" if self.bytes_per_s else ""
        return what + (f", {self.delay_s * 1000:.0f} ms each" if self.delay_s else "")


@dataclass(slots=True, kw_only=True)
class Struck:
    """A fault that was made. ``pid`` is the relay's, where it is about one. ``outcome`` is "done", or why not."""

    fault: Fault
    began_s: float
    ended_s: float | None = None
    pid: int | None = None
    outcome: str = "under way"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """A leader was killed, stopped or paused, and another relay has taken over at the broker after ``duration_s``.

    ``alone`` is True where no other fault was under way from shortly before until then.
    """

    kind: Kind
    fault: int
    pid: int
    successor: int
    duration_s: float
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One look at a running torture. ``backlog`` is None where the database does not answer."""

    phase: str
    elapsed_s: float
    seconds: float
    committed: int
    failed: int
    rolled_back: int
    backlog: int | None
    leader: str | None
    term: int | None
    planned: int
    struck: tuple[Struck, ...]
    failovers: tuple[Failover, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TortureResult:
    """What came out. ``report`` compares the orders table with everything that was read back.

    ``backlog`` and ``parked`` are what was left when the patience for draining was over; ``impossible`` says which
    faults could not be made on these servers, and why. ``told`` counts the events in the relays' logs, of which
    ``other_lines`` are the first that are no events. ``trouble`` is what must not happen besides: a relay that ended by
    itself, a leader without a successor, a defect. ``evidence`` is a folder with logs and histories, where something is
    wrong.
    """

    report: Report
    options: TortureOptions
    seed: int
    schedule: tuple[Fault, ...]
    struck: tuple[Struck, ...]
    failovers: tuple[Failover, ...]
    impossible: tuple[str, ...]
    told: Mapping[str, int]
    other_lines: tuple[str, ...]
    writers: Mapping[str, int]
    backlog: int
    parked: int
    drained_s: float | None
    forgotten: int
    """Messages that were published and then forgotten by the database, together with their orders."""
    trouble: tuple[str, ...]
    delivery: str | None
    elapsed_s: float
    database: str
    broker: str
    versions: Mapping[str, str]
    machine: str
    began: str
    evidence: str | None = None

    @property
    def faults(self) -> Counter[str]:
        """How many faults of each kind were made."""
        return Counter(struck.fault.kind for struck in self.struck if struck.outcome == "done")

    def durations_s(self, *kinds: Kind, alone: bool = True) -> list[float]:
        """The lengths of fail-overs, sorted: of those that no other fault disturbed, or of those that one did."""
        return sorted(f.duration_s for f in self.failovers if f.kind in kinds and f.alone is alone)

    @property
    def wrong(self) -> tuple[str, ...]:
        """Everything that must not be, in words."""
        report = self.report
        at_least_once = self.delivery == Delivery.PLAIN.value  # repeats are what it promises, if they say so
        found = {
            "lost": report.lost,
            "repeated without saying so" if at_least_once else "repeated": (
                report.unmarked if at_least_once else report.repeated
            ),
            "out of order": report.out_of_order,
            "unknown": report.unknown,
            "left in the outbox": self.backlog,
            "parked": self.parked,
        }
        wrong = [f"{count:,} {name}" for name, count in found.items() if count]
        wrong += self.trouble
        wrong += ["nothing was published"] if not report.published else []
        wrong += ["no fault was made"] if not self.faults.total() else []
        return tuple(wrong)

    @property
    def ok(self) -> bool:
        """True where nothing is wrong."""
        return not self.wrong
