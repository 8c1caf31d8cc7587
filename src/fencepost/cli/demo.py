"""`fencepost demo`: what the demonstration shows while it runs, and what came out."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import TYPE_CHECKING, Any

from fencepost import demo
from fencepost.cli import output
from fencepost.cli.failures import OK, PROBLEM_FOUND
from fencepost.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

_PLAIN_EVERY_S = 2.0


def show(options: demo.DemoOptions, *, as_json: bool) -> int:
    """Run it; the exit code: 0 only where nothing is wrong and the leader really was killed."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of every TLS connection that a server closes
    on_terminal = output.on_terminal() and not as_json
    screen: AbstractContextManager[Any] = _live() if on_terminal else nullcontext()
    with screen as live:
        result = asyncio.run(_cancellable(options, _OnScreen(live) if on_terminal else _InLines()))
    _tell(result)
    if as_json:
        output.json_line(_record(result))
    return OK if result.ok else PROBLEM_FOUND


async def _cancellable(options: demo.DemoOptions, on_snapshot: Callable[[demo.Snapshot], None]) -> demo.DemoResult:
    """Ctrl-C, a closed terminal and SIGTERM all clean up: servers and relays are stopped, tables and topics removed."""
    task = asyncio.create_task(demo.run(options, on_snapshot))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


# -- while it runs -----------------------------------------------------------------------------------------------------


class _InLines:
    """A line every two seconds, and one for each thing that happens to a leader."""

    def __init__(self) -> None:
        self._last = -_PLAIN_EVERY_S
        self._note = ""
        self._phase = ""

    def __call__(self, now: demo.Snapshot) -> None:
        moment = SYSTEM_CLOCK.monotonic()
        news = (now.note, now.phase) != (self._note, self._phase)
        if not news and moment - self._last < _PLAIN_EVERY_S:
            return
        note = f"  ({now.note})" if now.note != self._note else ""
        self._last, self._note, self._phase = moment, now.note, now.phase
        line = "  ".join(f"{name} {value}" for name, value in _rows(now))
        output.line(f"{now.phase:<12}  {now.elapsed_s:4.0f} s  {line}{note}")


def _live() -> Live:
    from rich.live import Live

    return Live(console=output.console(), refresh_per_second=8, transient=True)


class _OnScreen:
    """A progress bar and a table that stay in their place."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def __call__(self, now: demo.Snapshot) -> None:
        self._live.update(_picture(now))


def _picture(now: demo.Snapshot) -> Group:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", min_width=14)
    table.add_column(overflow="fold")
    done = min(now.elapsed_s, now.seconds)
    table.add_row(now.phase, ProgressBar(total=now.seconds, completed=done, width=44))
    for name, value in _rows(now):
        table.add_row(name, value)
    table.add_row("", now.note)
    return Group(table)


def _rows(now: demo.Snapshot) -> list[tuple[str, str]]:
    leader = "nobody" if now.leader_pid is None else f"{now.leader_pid} (term {now.term})"
    return [
        ("committed", f"{now.committed:,}"),
        ("published", f"{now.published:,}"),
        ("backlog", f"{now.backlog:,}"),
        ("leader", leader),
        ("fail-overs", _failovers(now.failovers)),
        ("delivery", now.delivery or "unknown"),
    ]


def _failovers(found: tuple[demo.Failover, ...]) -> str:
    if not found:
        return "0"
    longest = max(f.duration_s for f in found)
    return f"{len(found)} (last {output.seconds(found[-1].duration_s)}, longest {output.seconds(longest)})"


# -- what came out -----------------------------------------------------------------------------------------------------


def _tell(result: demo.DemoResult) -> None:
    rows = _results(result)
    if output.on_terminal():
        from rich.table import Table

        table = Table(show_header=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        for name, value in rows:
            table.add_row(name, value)
        output.console().print(table)
    else:
        for name, value in rows:
            output.line(f"{name:<30}{value:>16}")
    for example in result.report.examples:
        output.line(f"  {example}")
    _verdict(result)
    if result.folder:
        output.line(f"files: {result.folder}")


def _verdict(result: demo.DemoResult) -> None:
    if output.on_terminal():
        from rich.text import Text

        output.console().print(Text(_sentence(result), style="bold green" if result.ok else "bold red"))
    else:
        output.line(_sentence(result))


def _results(result: demo.DemoResult) -> list[tuple[str, str]]:
    report = result.report
    kills, pauses = result.durations_s("kill"), result.durations_s("pause")
    rows = [
        ("orders committed", f"{report.committed:,}"),
        ("orders rolled back", f"{result.rolled_back:,}"),
        ("messages read back", f"{report.published:,}"),
        ("lost", f"{report.lost:,}"),
        ("repeated", f"{report.repeated:,}"),
        ("out of order", f"{report.out_of_order:,}"),
        ("published but rolled back", f"{report.unknown:,}"),
        ("leader killed", f"{len(kills)} of {result.kills_wanted}"),
    ]
    if kills:
        rows.append(("  stand-still, median / max", f"{median(kills):.2f} / {kills[-1]:.2f} s"))
    if result.pauses_wanted:
        rows.append(("leader paused", f"{len(pauses)} of {result.pauses_wanted}"))
    if pauses:
        rows.append(("  stand-still", f"{pauses[-1]:.2f} s"))
    if result.latency_p50_ms is not None:
        rows.append(("order to reader, median", f"{result.latency_p50_ms:.1f} ms"))
    return [*rows, ("delivery", result.delivery or "unknown")]


def _sentence(result: demo.DemoResult) -> str:
    report = result.report
    if not result.as_planned:
        return "Failed: the leader was not killed and paused as often as planned, so this run shows nothing."
    if not report.published:
        return "Failed: nothing was published."
    if not report.clean:
        return f"Failed: what was published is not what was committed (seed {result.seed})."
    times = {0: "never killed", 1: "killed once"}.get(result.kills_wanted, f"killed {result.kills_wanted} times")
    killed = f"while the leader was {times}"
    paused = " and paused past its lease once" if result.pauses_wanted else ""
    orders = "The only committed order" if report.committed == 1 else f"All {report.committed:,} committed orders"
    return f"{orders} arrived, each once, in order, {killed}{paused}."


def _record(result: demo.DemoResult) -> dict[str, object]:
    """The keys are stable: scripts rely on them."""
    report, every = result.report, result.durations_s()
    kills, pauses = result.durations_s("kill"), result.durations_s("pause")
    return {
        "ok": result.ok,
        "committed": report.committed,
        "published": report.published,
        "lost": report.lost,
        "repeated": report.repeated,
        "out_of_order": report.out_of_order,
        "unknown": report.unknown,
        "rolled_back": result.rolled_back,
        "kills": len(kills),
        "pauses": len(pauses),
        "failovers": len(every),
        "failover_max_s": _rounded(every[-1] if every else None),
        "failover_kill_median_s": _rounded(median(kills) if kills else None),
        "failover_kill_max_s": _rounded(kills[-1] if kills else None),
        "failover_pause_max_s": _rounded(pauses[-1] if pauses else None),
        "latency_p50_ms": result.latency_p50_ms,
        "elapsed_s": _rounded(result.elapsed_s),
        "delivery": result.delivery,
        "database": result.database,
        "broker": result.broker,
        "seed": result.seed,
        "folder": result.folder,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
