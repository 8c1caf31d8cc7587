"""docs/add-a-broker.md, followed literally: its files, its rules, its relay, which is killed."""

from __future__ import annotations

import json
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
    schema, program, check, relay, look = GUIDE.commands("run")
    shell.run(*schema)
    shell.run(*program)
    checked = shell.run(*check)
    assert "exactly-once is possible and in force" in checked
    assert "warn" not in checked
    shell.env |= {"FENCEPOST_LEASE__TTL_S": "0.5"}
    for _ in range(3):
        kill(relay, shell)
        assert 0 < int(shell.run(*look).split()[0]) < 2_000, "it was killed in the middle"
    with shell.relaying(relay):
        until(lambda: "2000 orders" in shell.run(*look), "everything is published")
    assert shell.run(*look) == "2000 orders, 2000 ids\n"
    assert "2000 orders, 2000 ids" in GUIDE.page.read_text()


def test_torture(tmp_path: Path) -> None:
    """For a shorter time: its reader reads back what the relays published through the page's plug-in."""
    shell = Shell(GUIDE, tmp_path, TMPDIR=str(tmp_path))
    (command,) = GUIDE.commands("torture")
    printed = shell.run(*command, "--minutes", "0.1", "--every", "1", "--seed", "1", "--json")
    found = json.loads(printed.splitlines()[-1])
    assert (found["lost"], found["repeated"], found["out_of_order"], found["unknown"]) == (0,) * 4
    assert found["published"] == found["messages"] > 100
    assert found["takeovers"] > 1


def test_who_looks_at_a_mistyped_place_is_told(tmp_path: Path) -> None:
    """Nothing is created for a reader, and a path that cannot be is nobody's to wait for."""
    shell = Shell(GUIDE, tmp_path)
    schema, _, check, _, look = GUIDE.commands("run")
    shell.run(*look, succeeds=False)
    assert not (tmp_path / "bus.lmdb").exists()
    (tmp_path / "bus.lmdb").write_text("a file, no folder")
    shell.run(*schema)
    told = shell.run(*check, succeeds=False)
    assert "check the URL: it must name a folder" in told


def test_a_setting_that_is_unknown_is_told_with_its_line(tmp_path: Path) -> None:
    shell = Shell(GUIDE, tmp_path)
    with (tmp_path / "fencepost.toml").open("a") as file:
        file.write("message_byte_max = 5\n")
    _, _, check, _, _ = GUIDE.commands("run")
    done = subprocess.run(
        [*check], cwd=tmp_path, env=environment(shell.env), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 2
    assert "did you mean 'message_bytes_max'" in done.stderr
    assert "fencepost.toml line" in done.stderr


def kill(command: list[str], shell: Shell) -> None:
    """Start a relay, and kill it once it has published something."""
    with (shell.folder / "relay.log").open("wb") as opened:
        process = subprocess.Popen(command, cwd=shell.folder, env=environment(shell.env), stdout=opened)
    try:
        until(lambda: '"event": "published_total"' in shell.log(), "the relay publishes")
    finally:
        process.kill()
        process.wait()


def test_the_rules_that_are_named_exist() -> None:
    GUIDE.check_rules_that_are_named(at_least=8)


def test_every_error_of_the_library_has_a_family(tmp_path: Path) -> None:
    program = (
        "import lmdb; from acme.bus import fault_of; from fencepost.errors import FixError, RetryError\n"
        "kinds = [k for k in vars(lmdb).values() if isinstance(k, type) and issubclass(k, Exception)]\n"
        "kinds += [FileExistsError, FileNotFoundError, NotADirectoryError]\n"
        "assert all(isinstance(fault_of(k('x'), 'LMDB'), FixError) for k in kinds[-3:])\n"
        "assert len(kinds) > 20 and all(isinstance(fault_of(k('x'), 'LMDB'), FixError | RetryError) for k in kinds)"
    )
    Shell(GUIDE, tmp_path).run("python", "-c", program)


def test_it_stays_small() -> None:
    assert GUIDE.lines() <= 240
