"""docs/add-a-broker.md, followed literally: its files, its rules, its relay, which is killed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.following import Guide, Shell
from tests.docs.pages import TREE
from tests.docs.processes import environment, until

GUIDE = Guide(TREE / "docs" / "add-a-broker.md", "brokers")


@pytest.mark.slow
def test_the_rules_pass(tmp_path: Path) -> None:
    """All but those of the weaker classes."""
    shell = Shell(GUIDE, tmp_path)
    (command,) = GUIDE.commands("kit")
    printed = shell.run(*command)
    found = re.search(r"\d+ passed, \d+ skipped", printed)
    assert found is not None, printed
    assert f"`{found[0]}`" in GUIDE.page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ('if number_of(txn, f"fence/{self._lane}") != self._fence:', "if False:"),
        ("if failed or not batch:", "if not batch:"),
        ("receipt.encode())\n        if", 'b"{}")\n        if'),
    ],
)
def test_a_broker_that_is_weakened_is_caught(tmp_path: Path, text: str, instead: str) -> None:
    shell = Shell(GUIDE, tmp_path)
    shell.weaken(text, instead)
    (command,) = GUIDE.commands("kit")
    assert "FAILED" in shell.run(*command, "-rf", succeeds=False)


def test_for_real(tmp_path: Path) -> None:
    """The relay is killed again and again while it publishes."""
    shell = Shell(GUIDE, tmp_path)
    schema, check, program, relay, look = GUIDE.commands("run")
    shell.run(*schema)
    assert "exactly-once is possible and in force" in shell.run(*check)
    shell.run(*program)
    shell.env |= {"FENCEPOST_RELAY__BATCH": "10", "FENCEPOST_LEASE__TTL_S": "0.5"}
    for _ in range(3):
        kill(relay, shell)
    with shell.relaying(relay):
        until(lambda: "100 orders" in shell.run(*look), "everything is published")
    assert shell.run(*look) == "100 orders, 100 ids\n"


def kill(command: list[str], shell: Shell) -> None:
    """Start a relay, and kill it once it has taken over."""
    with (shell.folder / "relay.log").open("wb") as opened:
        process = subprocess.Popen(command, cwd=shell.folder, env=environment(shell.env), stdout=opened)
    try:
        until(lambda: '"event": "taken_over"' in shell.log(), "the relay has taken over")
    finally:
        process.kill()
        process.wait()


def test_the_rules_that_are_named_exist() -> None:
    GUIDE.check_rules_that_are_named(at_least=8)


def test_every_error_of_the_library_has_a_family(tmp_path: Path) -> None:
    program = (
        "import lmdb; from acme.bus import fault_of; from fencepost.errors import FixError, RetryError\n"
        "kinds = [k for k in vars(lmdb).values() if isinstance(k, type) and issubclass(k, Exception)]\n"
        "assert len(kinds) > 20 and all(isinstance(fault_of(k('x'), 'LMDB'), FixError | RetryError) for k in kinds)"
    )
    Shell(GUIDE, tmp_path).run("python", "-c", program)


def test_it_stays_small() -> None:
    assert GUIDE.lines() <= 240
