"""`fencepost torture`, in short: both routes without a loss, a repeat or a reordering; and a planted one is told."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from fencepost.demo.nats_stage import NatsStage
from fencepost.errors import MissingExtra
from fencepost.history import Entry
from fencepost.testing.torture.command import torture
from fencepost.testing.torture.standby import program
from tests.cli.process import run

KEYS = {
    *("messages", "faults", "lost", "repeated", "out_of_order", "failovers"),
    *("failover_p50_s", "failover_p99_s", "failover_max_s"),
}

SEEDS = {"postgresql to kafka": "144", "sqlite to nats": "152", "standby": "165"}
"""So short a schedule does not have everything in it: these have much."""

pytestmark = pytest.mark.torture


def tortured(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Run the command; its result, which must be without fault, and its report, which must be there."""
    options = ("--every", "1", "--json", "--report", "report", *arguments)
    result = run("torture", *options, cwd=tmp_path, env={"TMPDIR": str(tmp_path)}, timeout_s=240)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    assert set(found) >= KEYS
    assert (found["lost"], found["repeated"], found["out_of_order"], found["unknown"], found["backlog"]) == (0,) * 5
    assert found["published"] == found["messages"] > 100
    assert found["failovers"] >= 1
    assert found["takeovers"] > 1
    assert "arrived, each once, in order" in result.stdout
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["faults"] == found["faults"] == sum(s["outcome"] == "done" for s in report["schedule"]) > 3
    assert "| kill |" in (tmp_path / "report" / "report.md").read_text()
    assert not list(tmp_path.glob("fencepost-torture-*")), "its folder is removed"
    return found


def test_a5_a10_b5_postgresql_to_kafka(fresh_database: str, kafka_url: str, tmp_path: Path) -> None:
    """Killed, paused, cut off from both servers."""
    servers = ("--database", fresh_database, "--broker", kafka_url)
    found = tortured(tmp_path, *servers, "--minutes", "0.15", "--seed", SEEDS["postgresql to kafka"])
    assert set(found["faults_by_kind"]) >= {"kill"}


def test_a5_a10_d5_sqlite_to_nats(tmp_path: Path) -> None:
    """And the broker is restarted, because it is the command's own."""
    found = tortured(tmp_path, "--minutes", "0.15", "--seed", SEEDS["sqlite to nats"])
    assert set(found["faults_by_kind"]) >= {"kill", "restart"}


def test_what_is_lost_repeated_and_reordered_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a broken relay would leave it in the topic: the command says so, keeps the evidence, and ends with 1."""
    read_back = NatsStage.read_back

    async def planted(self: NatsStage) -> Sequence[Sequence[Entry]]:
        ((_lost, *others),) = await read_back(self)
        same_key = [number for number, entry in enumerate(others) if entry.key == others[0].key][:2]
        early, late = same_key
        others[early], others[late] = others[late], others[early]
        return [[*others, others[-1]]]

    monkeypatch.setattr(NatsStage, "read_back", planted)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(typer.Exit) as ended:
        torture(minutes=0.05, every=1.0, seed=1, as_json=True, report=tmp_path / "report")
    assert ended.value.exit_code == 1
    said = capsys.readouterr().out.splitlines()
    found = json.loads(said[-1])
    assert (found["lost"], found["repeated"], found["out_of_order"]) == (1, 1, 1)
    assert found["ok"] is False
    assert any(line.startswith("Failed: 1 lost; 1 repeated; 1 out of order") for line in said)
    evidence = Path(found["evidence"])
    assert evidence.parent == tmp_path / "report"
    assert {file.name for file in evidence.iterdir()} >= {"committed.jsonl", "read-0.jsonl", "relay-1.log"}
    committed = {json.loads(line)["id"] for line in (evidence / "committed.jsonl").read_text().splitlines()}
    read = {json.loads(line)["id"] for line in (evidence / "read-0.jsonl").read_text().splitlines()}
    assert len(committed - read) == 1


@pytest.mark.long
def test_a15_a_standby_that_misses_the_last_second_is_promoted(tmp_path: Path) -> None:
    """The database forgets what was published: nothing of the history that survives is lost or repeated."""
    try:
        program("postgres")
    except MissingExtra as error:
        pytest.fail(str(error)) if os.environ.get("CI") else pytest.skip(str(error))  # a laptop need not have it
    found = tortured(tmp_path, "--standby", "--minutes", "0.5", "--seed", SEEDS["standby"])
    assert found["faults_by_kind"]["fall-back"] >= 2
