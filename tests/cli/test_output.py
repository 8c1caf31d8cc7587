"""Standard output that takes no more: a full disk is one clear line, a reader that has gone is nobody's trouble."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fencepost.cli.failures import FIX_NEEDED, OK, PROBLEM_FOUND
from fencepost.cli.stdout import READER_GONE
from tests.cli.process import COMMAND, configuration, environment, run, running

FULL = Path("/dev/full")
COMMANDS = [("status",), ("status", "--json"), ("check",), ("schema", "print"), ("--help",), ("--version",)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    configuration(tmp_path, database="sqlite:///orders.db", broker="memory://output")
    assert run("schema", "apply", cwd=tmp_path).returncode == OK
    return tmp_path


def into(stdout: int, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with that standard output."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full: no other file is always full")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_is_one_line(command: tuple[str, ...], folder: Path) -> None:
    with FULL.open("w") as full:
        result = into(full.fileno(), *command, cwd=folder)
    assert result.stderr == "error: standard output cannot be written: No space left on device\n"
    assert result.returncode == PROBLEM_FOUND


@pytest.mark.parametrize("command", [*COMMANDS, ("status", "--watch")], ids=" ".join)
def test_a_reader_that_has_gone_is_not_mentioned(command: tuple[str, ...], folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = into(writing, *command, cwd=folder)
    finally:
        os.close(writing)
    assert result.stderr == ""
    assert result.returncode == READER_GONE == 128 + signal.SIGPIPE


def test_a_closed_output_is_no_trouble(folder: Path) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "check"]
    result = subprocess.run(
        command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (OK, "")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full: no other file is always full")
def test_errors_that_cannot_be_written_leave_the_exit_code(folder: Path) -> None:
    with FULL.open("w") as full:
        result = subprocess.run(
            [*COMMAND, "status", "--config", "gone.toml"],
            cwd=folder,
            env=environment(),
            stderr=full,
            timeout=60,
            check=False,
        )
    assert result.returncode == FIX_NEEDED


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full: no other file is always full")
def test_a_relay_goes_on_without_its_log(folder: Path) -> None:
    with FULL.open("w") as full, (folder / "stderr").open("w") as stderr:
        relay = subprocess.Popen([*COMMAND, "relay"], cwd=folder, env=environment(), stdout=full, stderr=stderr)
    try:
        with running("status", "--watch", "--every", "0.2", "--json", cwd=folder) as watching:
            give_up = time.monotonic() + 30
            while f":{relay.pid}:" not in watching.said():
                assert time.monotonic() < give_up, (folder / "stderr").read_text()
                assert relay.poll() is None, (folder / "stderr").read_text()
                time.sleep(0.05)
            assert json.loads(watching.said().splitlines()[-1])["lane"] == "clitest.0"
        relay.send_signal(signal.SIGTERM)
        relay.wait(20)
    finally:
        relay.kill()
        relay.wait()
    said = (folder / "stderr").read_text()
    assert said.startswith("the log cannot be written: No space left on device; the relay goes on without it\n")
    assert "Traceback" not in said
    assert said.count("\n") <= 2, said
