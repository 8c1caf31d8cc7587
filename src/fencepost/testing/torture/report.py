"""A run as JSON and as Markdown."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from pathlib import Path

from fencepost.testing.torture.records import MEANING, Failover, Struck, TortureResult


def written(result: TortureResult, folder: Path) -> None:
    """Write report.json and report.md."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record(result, whole=True), indent=2)
    (folder / "report.json").write_text(f"{text}\n", encoding="utf-8")
    (folder / "report.md").write_text(markdown(result), encoding="utf-8")


def percentile(sorted_values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least ``share`` of them do not exceed; None where there are none."""
    return sorted_values[max(ceil(share * len(sorted_values)), 1) - 1] if sorted_values else None


def record(result: TortureResult, *, whole: bool = False) -> dict[str, object]:
    """The keys are stable: scripts rely on them. ``whole``: with schedule, settings and every fail-over."""
    report = result.report
    found: dict[str, object] = {
        "ok": result.ok,
        "wrong": list(result.wrong),
        "messages": report.committed,
        "published": report.published,
        "faults": result.faults.total(),
        "lost": report.lost,
        "repeated": report.repeated,
        "repeated_unmarked": report.unmarked,
        "out_of_order": report.out_of_order,
        "unknown": report.unknown,
        "backlog": result.backlog,
        "parked": result.parked,
        "forgotten": result.forgotten,
        **_lengths(result),
        "takeovers": result.told.get("taken_over", 0),
        "fenced": result.told.get("owner_fenced", 0),
        "drained_s": _rounded(result.drained_s),
        "elapsed_s": _rounded(result.elapsed_s),
        "faults_by_kind": dict(result.faults),
        "faults_not_made": sum(struck.outcome != "done" for struck in result.struck),
        "rolled_back": result.writers.get("rolled back", 0),
        "delivery": result.delivery,
        "database": result.database,
        "broker": result.broker,
        "seed": result.seed,
        "evidence": result.evidence,
    }
    return found | _details(result) if whole else found


def _lengths(result: TortureResult) -> dict[str, object]:
    """Of kills first, undisturbed by other faults; then those of pauses, and all that were disturbed."""
    kills, stops, pauses = result.durations_s("kill"), result.durations_s("stop"), result.durations_s("pause", "late")
    disturbed = result.durations_s(*MEANING, alone=False)
    return {
        "failovers": len(result.failovers),
        "failovers_undisturbed": len(kills),
        "failover_p50_s": _rounded(percentile(kills, 0.5)),
        "failover_p99_s": _rounded(percentile(kills, 0.99)),
        "failover_max_s": _rounded(percentile(kills, 1)),
        "failover_stop_max_s": _rounded(percentile(stops, 1)),
        "failovers_pause": len(pauses),
        "failover_pause_p50_s": _rounded(percentile(pauses, 0.5)),
        "failover_pause_p99_s": _rounded(percentile(pauses, 0.99)),
        "failover_pause_max_s": _rounded(percentile(pauses, 1)),
        "failovers_disturbed": len(disturbed),
        "failover_disturbed_max_s": _rounded(percentile(disturbed, 1)),
    }


def _details(result: TortureResult) -> dict[str, object]:
    return {
        "began": result.began,
        "machine": result.machine,
        "versions": dict(result.versions),
        "settings": settings(result),
        "repeat_with": repeat_with(result),
        "writers": dict(result.writers),
        "relays_told": dict(result.told),
        "relays_other_lines": list(result.other_lines),
        "not_possible_here": list(result.impossible),
        "examples": list(result.report.examples),
        "schedule": [_struck(struck) for struck in result.struck],
        "failover_list": [_failover(failover) for failover in result.failovers],
    }


def settings(result: TortureResult) -> dict[str, object]:
    """What the run was told, and what it chose."""
    o = result.options
    return {
        "seconds": o.seconds,
        "relays": o.relays,
        "rate_per_s": o.rate_per_s,
        "every_s": o.every_s,
        "ttl_s": o.ttl_s,
        "cluster": o.cluster,
        "seed": result.seed,
        "restart_database": list(o.restart_database),
        "restart_broker": list(o.restart_broker),
    }


def repeat_with(result: TortureResult) -> str:
    """The command line that makes the same faults at the same moments. It shows no password."""
    o = result.options
    words = ["fencepost", "torture", "--seed", str(result.seed), "--minutes", f"{o.seconds / 60:g}"]
    words += ["--database", result.database] if o.database else []
    words += ["--broker", o.broker if o.cluster else result.broker] if o.broker else []
    words += ["--reader", o.reader] if o.reader else []
    words += ["--cluster"] if o.cluster else []
    words += ["--relays", str(o.relays), "--rate", f"{o.rate_per_s:g}", "--every", f"{o.every_s:g}"]
    words += ["--ttl", f"{o.ttl_s:g}"]
    words += ["--standby"] if o.standby else []
    for option, commands in (("--restart-database", o.restart_database), ("--restart-broker", o.restart_broker)):
        for command in commands:
            words += [option, command]
    return shlex.join(words)


def _struck(struck: Struck) -> dict[str, object]:
    return {
        "number": struck.fault.number,
        "at_s": struck.fault.at_s,
        "fault": str(struck.fault),
        "began_s": _rounded(struck.began_s),
        "ended_s": _rounded(struck.ended_s),
        "pid": struck.pid,
        "outcome": struck.outcome,
    }


def _failover(failover: Failover) -> dict[str, object]:
    return {
        "fault": failover.fault,
        "kind": failover.kind,
        "pid": failover.pid,
        "successor": failover.successor,
        "duration_s": _rounded(failover.duration_s),
        "alone": failover.alone,
    }


# -- for people --------------------------------------------------------------------------------------------------------


def markdown(result: TortureResult) -> str:
    """The report for people."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: TortureResult) -> Iterator[str]:
    yield f"# Torture: {result.database} to {result.broker}"
    yield from ("", verdict(result), "")
    yield from (f"* {wrong}" for wrong in result.wrong)
    if result.evidence:
        yield f"* logs and histories: `{result.evidence}`"
    yield from _table("What", "Count", counts(result))
    yield from (
        "",
        "## Fail-overs",
        "",
        "From the signal until another relay has taken over at the broker, in seconds.",
    )
    yield from _failover_table(result)
    yield from ("", "## Faults", "")
    yield from _fault_table(result)
    if result.impossible:
        yield from ("", "Not possible on these servers:", "")
        yield from (f"* {why}" for why in result.impossible)
    yield from ("", "## The run", "", f"Began {result.began}, {result.elapsed_s:.0f} s, on {result.machine}.")
    yield from _table("Version of", "", result.versions.items())
    yield from _table("Setting", "", settings(result).items())
    yield from ("", "The same faults again:", "", "```console", f"$ {repeat_with(result)}", "```")
    yield from _table("The relays' logs say", "Times", sorted(result.told.items()))
    yield from (
        "",
        "## The schedule",
        "",
        "| # | at | fault | made at | relay | outcome |",
        "|---|---|---|---|---|---|",
    )
    for s in result.struck:
        yield f"| {s.fault.number} | {s.fault.at_s:.1f} | {s.fault} | {s.began_s:.1f} | {s.pid or ''} | {s.outcome} |"


def verdict(result: TortureResult) -> str:
    """One sentence."""
    report, faults = result.report, result.faults.total()
    if not result.ok:
        return f"Failed: {'; '.join(result.wrong)} (seed {result.seed})."
    often = f"{report.repeated:,} repeats, all marked" if report.repeated else "each once"
    return (
        f"All {report.committed:,} committed messages arrived, {often}, in order, through {faults:,} faults and "
        f"{result.told.get('taken_over', 0):,} take-overs."
    )


def counts(result: TortureResult) -> list[tuple[str, str]]:
    """What was found, for a table."""
    report = result.report
    numbers = [
        ("messages committed", report.committed),
        ("messages read back", report.published),
        ("lost", report.lost),
        ("repeated", report.repeated),
        ("repeated without saying so", report.unmarked),
        ("out of order", report.out_of_order),
        ("published but not committed", report.unknown),
        ("published, then forgotten by the database", result.forgotten),
        ("left in the outbox", result.backlog),
        ("parked", result.parked),
        ("transactions rolled back", result.writers.get("rolled back", 0)),
        ("transactions with a savepoint rolled back", result.writers.get("with a savepoint rolled back", 0)),
        ("transactions committed late", result.writers.get("committed late", 0)),
        ("transactions that failed", result.writers.get("failed", 0)),
        ("faults", result.faults.total()),
        ("take-overs", result.told.get("taken_over", 0)),
    ]
    return [(name, f"{number:,}") for name, number in numbers]


def _failover_table(result: TortureResult) -> Iterator[str]:
    yield from ("", "| after | times | p50 | p99 | max |", "|---|---|---|---|---|")
    rows = [
        ("SIGKILL", result.durations_s("kill")),
        ("SIGTERM", result.durations_s("stop")),
        ("SIGSTOP", result.durations_s("pause", "late")),
        ("any of them, amid other faults", result.durations_s(*MEANING, alone=False)),
    ]
    for name, values in rows:
        shown = " | ".join("" if v is None else f"{v:.2f}" for v in (percentile(values, p) for p in (0.5, 0.99, 1)))
        yield f"| {name} | {len(values)} | {shown} |"


def _fault_table(result: TortureResult) -> Iterator[str]:
    yield from ("| kind | made | not made | what it is |", "|---|---|---|---|")
    for kind, meaning in MEANING.items():
        made = result.faults[kind]
        wanted = sum(struck.fault.kind == kind for struck in result.struck)
        if wanted:
            yield f"| {kind} | {made} | {wanted - made} | {meaning} |"


def _table(left: str, right: str, rows: Iterable[tuple[str, object]]) -> Iterator[str]:
    yield from ("", f"| {left} | {right} |", "|---|---|")
    for name, value in rows:
        yield f"| {name} | {value} |"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
