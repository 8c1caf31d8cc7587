"""What a torture says about itself: counts, lengths, the verdict, and how to repeat it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.history import Report
from fencepost.testing.torture.records import Failover, Fault, Kind, Struck, TortureOptions, TortureResult
from fencepost.testing.torture.relay_logs import RelayLogs
from fencepost.testing.torture.report import markdown, percentile, record, repeat_with, verdict, written

CLEAN = Report(committed=3, published=3, lost=0, repeated=0, out_of_order=0, unknown=0)
KILL = Fault(number=1, at_s=2.0, kind="kill", whom="leader")
CUT = Fault(number=2, at_s=3.0, kind="cut", whom="leader", server="database", seconds=1.5)


def failover(kind: Kind, duration_s: float, *, alone: bool = True) -> Failover:
    return Failover(kind=kind, fault=1, pid=7, successor=8, duration_s=duration_s, alone=alone)


GOOD = TortureResult(
    report=CLEAN,
    options=TortureOptions(seconds=90, database="postgresql://u:hunter22@h/db", restart_database=("sh -c 'x y'",)),
    seed=5,
    schedule=(KILL, CUT),
    struck=(
        Struck(fault=KILL, began_s=2.0, ended_s=3.5, pid=7, outcome="done"),
        Struck(fault=CUT, began_s=3.0, ended_s=3.0, outcome="not made: there was no leader for 15 s"),
    ),
    failovers=(
        failover("kill", 1.0),
        failover("kill", 3.0),
        failover("kill", 9.0, alone=False),
        failover("pause", 4.0),
    ),
    impossible=("cut to the broker: no proxy",),
    told={"taken_over": 4, "owner_fenced": 1},
    other_lines=("Traceback (most recent call last):",),
    writers={"failed": 2, "rolled back": 1},
    backlog=0,
    parked=0,
    drained_s=0.5,
    forgotten=0,
    trouble=(),
    delivery="exactly-once",
    elapsed_s=99.0,
    database="postgresql://u:***@h/db",
    broker="kafka://h",
    versions={"fencepost": "0.1.0"},
    machine="Linux, 2 cores",
    began="2026-01-01T00:00:00+00:00",
)


def changed(**what: Any) -> TortureResult:
    return dataclasses.replace(GOOD, **what)


@pytest.mark.parametrize("fault", ["lost", "repeated", "out_of_order", "unknown"])
def test_content_only_when_nothing_is_wrong(fault: str) -> None:
    assert GOOD.ok
    one: dict[str, Any] = {fault: 1}
    bad = changed(report=dataclasses.replace(CLEAN, **one))
    assert not bad.ok
    assert verdict(bad) == f"Failed: 1 {fault.replace('_', ' ')} (seed 5)."


def test_a_plain_broker_may_repeat_what_says_so() -> None:
    marked = dataclasses.replace(CLEAN, published=5, repeated=2)
    hidden = dataclasses.replace(marked, unmarked=1)
    plain = changed(report=marked, delivery="at-least-once")
    assert plain.ok
    assert "2 repeats, all marked" in verdict(plain)
    assert (record(plain)["repeated"], record(plain)["repeated_unmarked"]) == (2, 0)
    bad = changed(report=hidden, delivery="at-least-once")
    assert verdict(bad) == "Failed: 1 repeated without saying so (seed 5)."
    for delivery in ("exactly-once", "deduplicated", None):
        assert not changed(report=marked, delivery=delivery).ok


def test_a_cluster_of_its_own_is_started_again_where_the_run_is_repeated() -> None:
    """Its addresses were those of that run."""
    kafka = changed(options=TortureOptions(broker="kafka://", cluster=True), broker="kafka://127.0.0.1:2,127.0.0.1:3")
    assert "--broker kafka:// --cluster" in repeat_with(kafka)
    nats = repeat_with(changed(options=TortureOptions(cluster=True), broker="nats://127.0.0.1:2,127.0.0.1:3"))
    assert "--cluster" in nats
    assert "--broker" not in nats


def test_somebody_elses_broker_is_repeated_with_its_reader() -> None:
    own = TortureOptions(broker="acme.bus+lmdb:///x", reader="acme.bus_reader")
    repeated = repeat_with(changed(options=own, broker="acme.bus+lmdb:///x"))
    assert " --broker acme.bus+lmdb:///x --reader acme.bus_reader " in repeated


def test_what_is_left_counts_as_wrong_too() -> None:
    assert changed(backlog=4).wrong == ("4 left in the outbox",)
    assert changed(parked=1).wrong == ("1 parked",)
    assert changed(trouble=("a relay ended with exit code 2: x",)).wrong == ("a relay ended with exit code 2: x",)
    assert changed(struck=()).wrong == ("no fault was made",)
    nothing = dataclasses.replace(CLEAN, committed=0, published=0)
    assert changed(report=nothing).wrong == ("nothing was published",)


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentile([], 0.5) is None
    assert [percentile([1.0], share) for share in (0.5, 0.99, 1)] == [1.0, 1.0, 1.0]
    hundred = [float(n) for n in range(1, 101)]
    assert [percentile(hundred, share) for share in (0.5, 0.99, 1)] == [50.0, 99.0, 100.0]


def test_lengths_of_failovers_leave_out_those_that_something_else_disturbed() -> None:
    found = record(GOOD)
    assert (found["failovers"], found["failovers_undisturbed"]) == (4, 2)
    assert (found["failover_p50_s"], found["failover_p99_s"], found["failover_max_s"]) == (1.0, 3.0, 3.0)
    assert (found["failovers_pause"], found["failover_pause_max_s"]) == (1, 4.0)
    assert (found["failovers_disturbed"], found["failover_disturbed_max_s"]) == (1, 9.0)
    assert (found["faults"], found["faults_not_made"], found["takeovers"], found["fenced"]) == (1, 1, 4, 1)


def test_reports_are_complete_and_show_no_password(tmp_path: Path) -> None:
    written(GOOD, tmp_path / "new" / "folder")
    found = json.loads((tmp_path / "new" / "folder" / "report.json").read_text())
    page = (tmp_path / "new" / "folder" / "report.md").read_text()
    assert page == markdown(GOOD)
    assert "hunter22" not in page + json.dumps(found)
    assert [s["fault"] for s in found["schedule"]] == ["kill leader", "cut leader - database for 1.5 s"]
    assert found["repeat_with"] == repeat_with(GOOD)
    for text in (
        "| lost | 0 |",
        "| kill | 1 | 0 |",
        "| cut | 0 | 1 |",
        "* cut to the broker: no proxy",
        "| SIGKILL | 2 |",
    ):
        assert text in page, text
    assert "| 1 | 2.0 | kill leader | 2.0 | 7 | done |" in page


def test_how_to_repeat_it() -> None:
    assert repeat_with(GOOD) == (
        "fencepost torture --seed 5 --minutes 1.5 --database 'postgresql://u:***@h/db' --relays 3 --rate 150 --every 4 "
        "--ttl 2 --restart-database 'sh -c '\"'\"'x y'\"'\"''"
    )


def test_take_overs_are_read_from_logs_as_they_grow(tmp_path: Path) -> None:
    log = tmp_path / "relay-1.log"
    log.write_text(
        '{"event": "taken_over", "ts": "2026-01-01T00:00:01.500+00:00", "token": 1}\nnot json\n{"event": "tak'
    )
    logs = RelayLogs({7: log})
    logs.look()
    logs.look()
    assert logs.told == {"taken_over": 1, "other lines": 1}
    with log.open("a") as opened:
        opened.write(
            'en_over", "ts": "2026-01-01T00:00:03.000+00:00", "token": 2}\n{"event": "relay_failed", "text": "x"}\n'
        )
    logs.look()
    first, second = logs.take_overs
    assert (first.pid, first.term, second.term) == (7, 1, 2)
    assert logs.first_after(first.at, not_pid=1) == second
    assert logs.first_after(first.at, not_pid=7) is None
    assert len(logs.grave) == 1
