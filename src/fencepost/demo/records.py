"""What a demonstration is asked for, what it shows while it runs, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fencepost.config import Config
from fencepost.demo.readers import Stage
from fencepost.history import Report
from fencepost.ports import BrokerOptions

Phase = Literal["starting", "writing", "draining", "reading back", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """``database`` and ``broker`` are URLs, used as they are; otherwise ``config`` names the servers, with all that it
    says of them. Without any of these a SQLite file and a NATS server of the demonstration's own are used.

    ``rate_per_s`` counts orders; ``kills`` is how often the leader is killed, ``pause`` whether it is also paused once.
    ``seed`` decides everything that is drawn; None draws anew. ``keep`` leaves files, tables and topics where they are.
    ``broker_settings`` are further keys of ``[broker]``. ``stage`` makes the stage of a broker and a topic, where it is
    none of those that the demonstration knows.
    """

    database: str | None = None
    broker: str | None = None
    config: Config | None = None
    seconds: float = 20.0
    rate_per_s: float = 200.0
    kills: int = 5
    pause: bool = True
    seed: int | None = None
    keep: bool = False
    broker_settings: Mapping[str, object] = field(default_factory=dict)
    stage: Callable[[BrokerOptions, str], Stage] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """A leader was killed or paused. ``duration_s`` is how long nothing moved: from then to the first message that was
    committed after it and reached the reader, so that only a new leader can have published it.
    """

    kind: Literal["kill", "pause"]
    pid: int
    term: int
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One look at a running demonstration. ``published`` counts what an independent reader has read."""

    phase: Phase
    elapsed_s: float
    seconds: float
    committed: int
    rolled_back: int
    published: int
    backlog: int
    leader_pid: int | None
    term: int | None
    delivery: str | None
    failovers: tuple[Failover, ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What came out. ``report`` compares the orders table with the whole stream, read again from its beginning."""

    report: Report
    rolled_back: int
    failovers: tuple[Failover, ...]
    kills_wanted: int
    pauses_wanted: int
    delivery: str | None
    latency_p50_ms: float | None
    elapsed_s: float
    database: str
    broker: str
    seed: int
    folder: str | None
    """Where configuration, logs and data were left; None where they were removed."""

    def durations_s(self, kind: Literal["kill", "pause"] | None = None) -> list[float]:
        """The fail-overs' lengths, sorted."""
        return sorted(f.duration_s for f in self.failovers if kind is None or f.kind == kind)

    @property
    def as_planned(self) -> bool:
        """True where the leader really was killed and paused as often as asked."""
        kinds = [f.kind for f in self.failovers]
        return kinds.count("kill") == self.kills_wanted and kinds.count("pause") == self.pauses_wanted

    @property
    def ok(self) -> bool:
        """True where something was published, nothing is wrong with it, and the leader really was killed."""
        return self.report.clean and self.report.published > 0 and self.as_planned
