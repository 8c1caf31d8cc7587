"""The example for the standard library's sqlite3 runs, does what it says, and stays short."""

import ast
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plain_sqlite.py"


def run(shop: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE), str(shop)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_it_shows_what_waits(tmp_path: Path) -> None:
    kept = [
        'waits: orders order-1 1 {"id":"order-1","total":120}',
        'waits: orders order-2 1 {"id":"order-2","total":80}',
    ]
    refused = "rolled back order-{}: UNIQUE constraint failed: orders.id"
    assert run(tmp_path / "shop.db") == [refused.format(1), *kept]
    assert run(tmp_path / "shop.db") == [refused.format(1), refused.format(2), refused.format(1), *kept]


def test_without_a_file_it_says_how_it_is_used(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "usage: python examples/plain_sqlite.py FILE\n"
    assert list(tmp_path.iterdir()) == []


def test_it_stays_short() -> None:
    """At most 20 lines that are neither blank, comment nor docstring."""
    text = EXAMPLE.read_text()
    described = ast.parse(text).body[0].end_lineno or 0
    lines = [line for line in text.splitlines()[described:] if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= 20
