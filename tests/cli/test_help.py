"""Help, version, and what is typed wrongly."""

import sys
from pathlib import Path

import pytest

from fencepost.cli.failures import FIX_NEEDED
from tests.cli.process import run

COMMANDS = ("init", "check", "relay", "status", "demo", "schema", "torture", "simulate")


def test_help_names_every_command_and_the_exit_codes(tmp_path: Path) -> None:
    result = run("--help", cwd=tmp_path)
    assert result.returncode == 0
    for command in COMMANDS:
        assert f"  {command} " in result.stdout
    assert "Exit codes: 0" in result.stdout
    assert "..." not in result.stdout.partition("Commands:")[2], "a summary is cut off"
    assert result.stderr == ""


@pytest.mark.parametrize("command", [*((c,) for c in COMMANDS), ("schema", "print"), ("schema", "apply")])
def test_help_of_each_command_is_plain_text_in_a_pipe(command: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*command, "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert f"Usage: fencepost {' '.join(command)}" in result.stdout
    assert result.stdout.isascii(), "boxes or colours"
    assert "\x1b" not in result.stdout


def test_version(tmp_path: Path) -> None:
    result = run("--version", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stdout.startswith("fencepost 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("frobnicate",), "frobnicate"), (("status", "--frob"), "--frob"), (("demo", "--seconds", "x"), "--seconds")],
)
def test_wrong_command_line(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == FIX_NEEDED
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_help_imports_nothing_heavy() -> None:
    """Start-up stays quick only as long as these are imported by the commands that need them."""
    import subprocess

    program = (
        "import sys\nsys.argv = ['fencepost', '--help']\nfrom fencepost.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('sqlalchemy', 'asyncpg', 'nats', 'confluent_kafka', 'asyncio') if m in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"
