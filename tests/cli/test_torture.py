"""The commands of the test kit: they are listed without being loaded, and a missing library is one clear line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli.failures import FIX_NEEDED, INTERRUPTED, UNREACHABLE
from tests.cli.process import CLOSED, run, running

IN_PROCESS = """
import sys
from fencepost.cli import main
{before}
try:
    main({arguments!r})
except SystemExit as end:
    print("exit", end.code)
print("loaded", sorted(name for name in sys.modules if name.startswith("fencepost.testing")))
"""


def in_process(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    program = IN_PROCESS.format(arguments=list(arguments), before=before)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


def test_listed_without_being_loaded() -> None:
    found = in_process("--help").stdout
    assert "  torture " in found
    assert "  simulate " in found
    assert found.splitlines()[-1] == "loaded []"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_of_torture_is_plain_text_in_a_pipe(option: str, tmp_path: Path) -> None:
    result = run("torture", option, cwd=tmp_path)
    assert result.returncode == 0
    assert "Usage: fencepost torture" in result.stdout
    assert result.stdout.isascii(), "boxes or colours"
    for name in (
        "seed",
        "minutes",
        "database",
        "broker",
        "reader",
        "relays",
        "cluster",
        "restart-database",
        "restart-broker",
        "report",
        "json",
    ):
        assert f"--{name}" in result.stdout


@pytest.mark.parametrize("command", ["torture", "simulate"])
def test_a_missing_library_names_the_extra(command: str) -> None:
    blocked = """
import importlib
real = importlib.import_module
def blocked(name, package=None):
    if name.startswith("fencepost.testing"):
        raise ModuleNotFoundError("No module named 'hypothesis'", name="hypothesis")
    return real(name, package)
importlib.import_module = blocked
"""
    result = in_process(command, before=blocked)
    assert f"exit {FIX_NEEDED}" in result.stdout
    assert result.stderr.startswith(f"error: fencepost {command} needs the library 'hypothesis'")
    assert 'pip install "fencepost[testing]"' in result.stderr
    assert "Traceback" not in result.stderr


def test_only_a_standby_needs_the_library_of_postgresql() -> None:
    """What `pip install "fencepost[testing,demo]"` brings is enough for the rest."""
    before = "sys.modules['asyncpg'] = None\nimport fencepost.testing.torture.run"
    result = in_process("torture", "--standby", before=before)
    assert f"exit {FIX_NEEDED}" in result.stdout
    assert "needs the library 'asyncpg'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--broker", f"kafka://{CLOSED}"), UNREACHABLE, "Kafka, while connecting"),
        (("--database", "memory://x"), FIX_NEEDED, "does not know this database"),
        (("--minutes", "x"), FIX_NEEDED, "--minutes"),
        (("--restart-broker", "sh -c 'open"), FIX_NEEDED, "cannot be read"),
        (("--reader", "acme.bus_reader"), FIX_NEEDED, "name it with --broker"),
        (("--broker", "acme.bus+lmdb:///x", "--reader", "acme.bus_reader"), FIX_NEEDED, "no module 'acme.bus_reader'"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(
    arguments: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    result = run("torture", *arguments, cwd=tmp_path, env={"TMPDIR": str(tmp_path)})
    assert result.returncode == code, result.stdout + result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    import signal

    with running("torture", "--minutes", "5", cwd=tmp_path, env={"TMPDIR": str(tmp_path)}) as command:
        command.until("torture   ", timeout_s=60)
        assert command.ended(signal.SIGINT, timeout_s=60) == INTERRUPTED
        assert "Traceback" not in command.said()
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_dir()] == []
    assert not [line for line in command_lines() if f"{tmp_path}/" in line], "no relay, no server"


def command_lines() -> list[str]:
    """Of every process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has ended
    return found
