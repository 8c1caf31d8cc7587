"""Commands and servers as a reader of the documentation would start them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without settings of ours, and with those that are given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_")}
    return kept | dict(extra)


def until(happened: Callable[[], bool], what: str) -> None:
    """Wait for something, for as long as the deadline allows."""
    give_up = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < give_up, f"it took too long: {what}"
        time.sleep(0.05)


@contextmanager
def running(
    command: Sequence[str], *, cwd: Path, output: Path, env: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is asked to end when the block does, and must have ended well."""
    with output.open("wb") as opened:
        process = subprocess.Popen(command, cwd=cwd, env=environment(env), stdout=opened, stderr=subprocess.STDOUT)
    try:
        yield process
        assert process.poll() is None, output.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) in (0, -signal.SIGTERM), output.read_text()
    finally:
        process.kill()
        process.wait()
