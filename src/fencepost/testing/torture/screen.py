"""What a torture shows while it runs: a table that stays in its place, or lines in a pipe."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fencepost.clock import SYSTEM_CLOCK
from fencepost.testing.torture.records import Snapshot, TortureResult
from fencepost.testing.torture.report import counts, percentile, verdict

if TYPE_CHECKING:
    from rich.console import Group

_PLAIN_EVERY_S = 5.0
_RECENT = 5

Show = Callable[[Snapshot], None]


def line(text: str = "") -> None:
    """One line, seen at once by whoever reads the pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextmanager
def showing(*, live: bool) -> Iterator[Show]:
    """Something to hand snapshots to."""
    if not live:
        yield _InLines()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(markup=False, highlight=False, soft_wrap=True)
    with Live(console=console, refresh_per_second=8, transient=True) as screen:
        yield lambda now: screen.update(_picture(now))


class _InLines:
    """A line every few seconds, and one for each fault."""

    def __init__(self) -> None:
        self._last = -_PLAIN_EVERY_S
        self._phase = ""
        self._told = 0

    def __call__(self, now: Snapshot) -> None:
        for struck in now.struck[self._told :]:
            line(f"{'fault':<13}{struck.began_s:5.0f} s  {struck.fault.number:>4}  {struck.fault}")
        self._told = len(now.struck)
        moment = SYSTEM_CLOCK.monotonic()
        if now.phase == self._phase and moment - self._last < _PLAIN_EVERY_S:
            return
        self._last, self._phase = moment, now.phase
        line(f"{now.phase:<13}{now.elapsed_s:5.0f} s  " + "  ".join(f"{name} {value}" for name, value in _rows(now)))


def _picture(now: Snapshot) -> Group:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", min_width=14)
    table.add_column(overflow="fold")
    table.add_row(now.phase, ProgressBar(total=now.seconds, completed=min(now.elapsed_s, now.seconds), width=44))
    for name, value in [*_rows(now), *_by_kind(now)]:
        table.add_row(name, value)
    for struck in now.struck[-_RECENT:]:
        table.add_row(f"{struck.began_s:6.1f} s", f"{struck.fault}  [{struck.outcome}]")
    return Group(table)


def _rows(now: Snapshot) -> list[tuple[str, str]]:
    backlog = "?" if now.backlog is None else f"{now.backlog:,}"
    leader = "nobody" if now.leader is None else f"{now.leader.split(':')[1]} (term {now.term})"
    return [
        ("committed", f"{now.committed:,}"),
        ("failed", f"{now.failed:,}"),
        ("backlog", backlog),
        ("leader", leader),
        ("faults", f"{len(now.struck)} of {now.planned}"),
        ("fail-overs", _failovers(now)),
    ]


def _failovers(now: Snapshot) -> str:
    kills = sorted(f.duration_s for f in now.failovers if f.kind == "kill" and f.alone)
    if not kills:
        return str(len(now.failovers))
    return f"{len(now.failovers)} (p50 {percentile(kills, 0.5):.2f} s, max {kills[-1]:.2f} s after SIGKILL)"


def _by_kind(now: Snapshot) -> list[tuple[str, str]]:
    made = Counter(struck.fault.kind for struck in now.struck)
    return [("by kind", "  ".join(f"{kind} {count}" for kind, count in sorted(made.items())))] if made else []


def told(result: TortureResult) -> None:
    """What came out, in lines."""
    for name, value in counts(result):
        line(f"{name:<44}{value:>14}")
    for name, values in (("SIGKILL", result.durations_s("kill")), ("SIGSTOP", result.durations_s("pause", "late"))):
        if values:
            p50, p99, longest = (percentile(values, share) for share in (0.5, 0.99, 1))
            line(f"fail-over after {name}, p50 / p99 / max in s{'':<2}{p50:>6.2f} / {p99:.2f} / {longest:.2f}")
    for why in result.impossible:
        line(f"not possible here: {why}")
    for example in result.report.examples:
        line(f"  {example}")
    line(verdict(result))
    if result.evidence:
        line(f"logs and histories: {result.evidence}")
