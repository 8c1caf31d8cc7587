"""docs/add-a-broker.md, followed literally: its files, its rules, its relay, which is killed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import TREE, blocks, the_block
from tests.docs.processes import environment, running, until

PAGE = TREE / "docs" / "add-a-broker.md"
RULES = TREE / "src" / "fencepost" / "testing" / "brokers"
_NAMED = re.compile(r"# (\S+\.py)(?:, continued)?\n")


def files() -> dict[str, str]:
    """The files that the page gives, each of one block or of several."""
    found: dict[str, str] = {}
    for block in blocks(PAGE):
        if "file" in block.words:
            named = _NAMED.match(block.text)
            assert named is not None, block
            found[named[1]] = found.get(named[1], "") + "\n\n" + block.text[named.end() :]
    return found


def commands(word: str) -> list[list[str]]:
    """The commands of a block, without their comments."""
    lines = the_block(PAGE, "sh", word).text.splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


class Shell:
    """The reader's folder, with the page's files in it."""

    def __init__(self, folder: Path) -> None:
        made, exported = commands("folder")
        assert exported == ["export", "PYTHONPATH=."]
        self.folder = folder
        self.env = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": "."}
        self.run(*made)
        for name, text in files().items():
            (folder / name).write_text(text)
        (folder / "fencepost.toml").write_text(the_block(PAGE, "toml", "config").text)

    def run(self, *command: str, succeeds: bool = True) -> str:
        """Run a command that ends well, or does not; what it printed."""
        env = {name: value for name, value in environment(self.env).items() if name != "CI"}
        done = subprocess.run(
            command, cwd=self.folder, env=env | {"PYTEST_ADDOPTS": "--color=no"}, capture_output=True, text=True,
            timeout=100, check=False,
        )  # fmt: skip
        assert (done.returncode == 0) is succeeds, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.mark.slow
def test_the_rules_pass(tmp_path: Path) -> None:
    """All but those of the weaker classes."""
    shell = Shell(tmp_path)
    (command,) = commands("kit")
    printed = shell.run(*command)
    found = re.search(r"\d+ passed, \d+ skipped", printed)
    assert found is not None, printed
    assert f"`{found[0]}`" in PAGE.read_text()


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
    shell = Shell(tmp_path)
    file = tmp_path / "acme" / "bus.py"
    assert file.read_text().count(text) == 1
    file.write_text(file.read_text().replace(text, instead))
    (command,) = commands("kit")
    assert "FAILED" in shell.run(*command, "-rf", succeeds=False)


def test_for_real(tmp_path: Path) -> None:
    """The relay is killed again and again while it publishes."""
    shell = Shell(tmp_path)
    schema, check, program, relay, look = commands("run")
    shell.run(*schema)
    assert "exactly-once is possible and in force" in shell.run(*check)
    shell.run(*program)
    env = shell.env | {"FENCEPOST_RELAY__BATCH": "10", "FENCEPOST_LEASE__TTL_S": "0.5"}
    for number in range(3):
        kill(relay, tmp_path / f"relay-{number}.log", env)
    with running(relay, cwd=tmp_path, output=tmp_path / "relay.log", env=env):
        until(lambda: "100 orders" in shell.run(*look), "everything is published")
    assert shell.run(*look) == "100 orders, 100 ids\n"


def kill(command: list[str], log: Path, env: dict[str, str]) -> None:
    """Start a relay, and kill it once it has taken over."""
    with log.open("wb") as opened:
        process = subprocess.Popen(command, cwd=log.parent, env=environment(env), stdout=opened)
    try:
        until(lambda: '"event": "taken_over"' in log.read_text(), "the relay has taken over")
    finally:
        process.kill()
        process.wait()


def test_the_rules_that_are_named_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    assert len(named) > 8
    there = set(re.findall(r"def (test_\w+)", "".join(file.read_text() for file in RULES.glob("*.py"))))
    assert named <= there


def test_every_error_of_the_library_has_a_family(tmp_path: Path) -> None:
    program = (
        "import lmdb; from acme.bus import fault_of; from fencepost.errors import FixError, RetryError\n"
        "kinds = [k for k in vars(lmdb).values() if isinstance(k, type) and issubclass(k, Exception)]\n"
        "assert len(kinds) > 20 and all(isinstance(fault_of(k('x'), 'LMDB'), FixError | RetryError) for k in kinds)"
    )
    Shell(tmp_path).run("python", "-c", program)


def test_it_stays_small() -> None:
    lines = [line for text in files().values() for line in text.splitlines() if line.strip()]
    assert len(lines) <= 240
