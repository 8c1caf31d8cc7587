"""`fencepost torture`, in short: both routes without a loss, a repeat or a reordering; and a planted one is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from tests.services import absent
from tests.torture.kafka_home import kafka_home

KEYS = {
    *("messages", "faults", "lost", "repeated", "out_of_order", "failovers"),
    *("failover_p50_s", "failover_p99_s", "failover_max_s"),
}

SEEDS = {
    "postgresql to kafka": "377",
    "nats": "107",
    "nats cluster": "58",
    "kafka cluster": "18",
    "standby": "158",
    "plugins": "1",
}
"""So short a schedule does not have everything in it: these have much."""
PLUGINS = ("loses_answers", "forgets_receipts", "acknowledges_early")

pytestmark = pytest.mark.torture


def tortured(tmp_path: Path, *arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run the command; its result, which must be without fault, and its report, which must be there."""
    tmp_path.mkdir(exist_ok=True)
    options = ("--every", "1", "--json", "--report", "report", *arguments)
    result = run("torture", *options, cwd=tmp_path, env={"TMPDIR": str(tmp_path), **(env or {})}, timeout_s=400)
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
    assert not list(tmp_path.glob("fencepost-*")), "its folders are removed"
    return found


def test_a5_a10_b5_postgresql_to_kafka(fresh_database: str, kafka_url: str, tmp_path: Path) -> None:
    """Killed, held back, cut off from both servers."""
    servers = ("--database", fresh_database, "--broker", kafka_url)
    found = tortured(tmp_path, *servers, "--minutes", "0.15", "--seed", SEEDS["postgresql to kafka"])
    assert set(found["faults_by_kind"]) >= {"kill"}


def test_a5_a10_d5_sqlite_to_nats_and_to_three_nodes_of_it(tmp_path: Path) -> None:
    """Both at once. The broker is the command's own: it is restarted, or one of its nodes is killed. What was
    acknowledged is on two other nodes, and relays and readers find them.
    """
    one, three = tmp_path / "one", tmp_path / "three"
    with ThreadPoolExecutor() as both:
        alone = both.submit(tortured, one, "--minutes", "0.15", "--seed", SEEDS["nats"])
        cluster = both.submit(tortured, three, "--cluster", "--minutes", "0.15", "--seed", SEEDS["nats cluster"])
    assert set(alone.result()["faults_by_kind"]) >= {"kill", "restart", "stutter", "narrow"}
    found = cluster.result()
    assert set(found["faults_by_kind"]) >= {"kill", "node"}
    assert found["broker"].count(",") == 2


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
        torture(minutes=0.05, every=1.0, seed=1, relays=1, as_json=True, report=tmp_path / "report")
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


def with_plugin(plugin: str, nats_url: str, tmp_path: Path) -> dict[str, Any]:
    """The result of the command where the relays are given a broker plug-in of the tests' own."""
    folder = tmp_path / plugin
    folder.mkdir()
    schedule = ("--minutes", "0.1", "--every", "1", "--relays", "1", "--seed", SEEDS["plugins"])
    broker = f"tests.torture.{plugin}+{nats_url}"
    env = {"TMPDIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = run("torture", "--broker", broker, *schedule, "--json", cwd=folder, env=env, timeout_s=200)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    assert ended.returncode == (0 if found["ok"] else 1), ended.stdout + ended.stderr
    return found


def test_relays_with_a_broken_broker_plugin_are_found_out(nats_url: str, tmp_path: Path) -> None:
    """Answers are lost in all three, which is no harm where receipts are kept. Without receipts messages are repeated,
    and a batch that counts as published before the broker has it is lost.
    """
    with ThreadPoolExecutor() as all_at_once:
        found = list(all_at_once.map(lambda plugin: with_plugin(plugin, nats_url, tmp_path), PLUGINS))
    assert [(one["lost"] > 0, one["repeated"] > 0) for one in found] == [(False, False), (False, True), (True, False)]
    assert [one["ok"] for one in found] == [True, False, False]
    assert [one["unknown"] for one in found] == [0, 0, 0]
    assert all(Path(one["evidence"]).is_dir() for one in found[1:])


def own_kafka(folder: Path) -> str:
    """Where Kafka is. Where there is none see ``absent``."""
    return kafka_home(folder) or absent("no Kafka: run `dev/services install kafka`")


@pytest.mark.long
def test_a5_a10_postgresql_to_three_nodes_of_kafka_of_which_one_is_killed(fresh_database: str, tmp_path: Path) -> None:
    """Topics and receipts are on three nodes, and two of them suffice."""
    env = {"KAFKA_HOME": own_kafka(tmp_path)}
    servers = ("--database", fresh_database, "--broker", "kafka://", "--cluster")
    found = tortured(tmp_path, *servers, "--minutes", "0.5", "--seed", SEEDS["kafka cluster"], env=env)
    assert found["faults_by_kind"]["node"] >= 1


@pytest.mark.long
def test_a15_a_standby_that_misses_the_last_second_is_promoted(tmp_path: Path) -> None:
    """The database forgets what was published: nothing of the history that survives is lost or repeated."""
    try:
        program("postgres")
    except MissingExtra as error:
        absent(str(error))
    found = tortured(tmp_path, "--standby", "--minutes", "0.5", "--seed", SEEDS["standby"])
    assert found["faults_by_kind"]["fall-back"] >= 2
