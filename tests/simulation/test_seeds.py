"""Some hundred seeds: no broken promise, every rare branch, every weakened rule noticed, the same each time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.testing.simulation import Scenario, simulate
from fencepost.testing.simulation.campaign import RARE, catch, search
from fencepost.testing.simulation.mutants import MUTANTS, Mutant
from tests.cli.process import run
from tests.simulation.table import noticing

SEEDS = 300


def test_a1_a3_a5_a6_a9_a10_a15_b1_b2_b7_b8_c1_d1_d3_d4_no_seed_breaks_a_promise() -> None:
    """C2, C8, D5, D6 and D11 too: crashes, pauses, partitions, restarts, fall-backs, late commits, refused messages."""
    found = search(0, SEEDS)
    assert found.violations == []
    assert found.unreached == [], "the seeds do not reach what they must"
    assert found.seeds == SEEDS


def test_the_same_seed_is_the_same_history() -> None:
    """Also in another process, with another order of hashes."""
    program = "from fencepost.testing.simulation import *; print([simulate(Scenario.of(s)).digest for s in (3, 4, 5)])"
    digests = [simulate(Scenario.of(seed)).digest for seed in (3, 4, 5)]
    for hashes in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": hashes}, capture_output=True, text=True, check=True
        )
        assert json.loads(there.stdout) == digests
    assert len(set(digests)) == 3


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_weakened_rule_is_noticed(mutant: Mutant) -> None:
    """By the seed that the documentation names; where the code has changed since, by another one."""
    with mutant.weakening():
        violations = simulate(Scenario.of(noticing()[mutant.name], **mutant.where)).violations
    assert violations or catch(mutant, 600).seed is not None


def test_a_mutant_is_gone_when_its_block_ends() -> None:
    before = simulate(Scenario.of(2)).digest
    with MUTANTS[0].weakening():
        pass
    assert simulate(Scenario.of(2)).digest == before


def test_every_rare_branch_has_one_name() -> None:
    assert len(RARE) == len(set(RARE))


def test_the_command(tmp_path: Path) -> None:
    done = run("simulate", "--seeds", "20", "--jobs", "1", "--json", cwd=tmp_path)
    record = json.loads(done.stdout.splitlines()[-1])
    assert (record["seeds"], record["violated_seeds"]) == (20, 0)
    assert done.returncode == (1 if record["unreached"] else 0)
    assert "never reached" in done.stdout, "20 seeds cannot reach everything, and say so"
    one = run("simulate", "--seed", "7", cwd=tmp_path)
    assert one.returncode == 0
    assert "committed" in one.stdout
    assert "-- no more trouble" in one.stdout
