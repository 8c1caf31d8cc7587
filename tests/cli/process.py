"""The command as a user runs it: a process of its own, in a folder of its own, in a pipe."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager
from pathlib import Path

from fencepost import app
from fencepost.config import load

COMMAND = (sys.executable, "-X", "faulthandler", "-W", "error", "-m", "fencepost")
CLOSED = "127.0.0.1:9"
"""An address where nobody listens (the discard port)."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_")}
    return kept | {"COLUMNS": "100"} | dict(extra or {})


def run(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def run_at_once(
    *commands: tuple[str, ...], cwd: Path, env: Mapping[str, str] | None = None
) -> list[subprocess.CompletedProcess[str]]:
    """Run commands of which none needs what another one does, at the same time; their results in the same order."""
    with ThreadPoolExecutor(len(commands)) as threads:
        return list(threads.map(lambda words: run(*words, cwd=cwd, env=env), commands))


def make_tables(folder: Path) -> None:
    """What `fencepost schema apply` does in that folder, without a process."""
    with chdir(folder):
        asyncio.run(app.schema(load(Path("fencepost.toml"), {})).apply())


class Running:
    """A command that runs until it is stopped. Its output is in a file."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process, self._output = process, output

    def said(self) -> str:
        """Everything it wrote so far, to both of its outputs."""
        return self._output.read_text()

    def until(self, text: str, timeout_s: float = 30) -> str:
        """Wait until it has written ``text``; everything it wrote."""
        give_up = time.monotonic() + timeout_s
        while text not in self.said():
            assert time.monotonic() < give_up, f"it did not say {text!r}: {self.said()}"
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.said()}"
            time.sleep(0.02)
        return self.said()

    def ended(self, number: signal.Signals | None = None, timeout_s: float = 60) -> int:
        """Send a signal and wait for the end; the exit code (negative: of a signal)."""
        if number is not None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # faulthandler says where it stands
            self.process.wait(timeout_s)
            raise AssertionError(f"it did not end: {self.said()[-4000:]}") from None


@contextmanager
def running(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Start the command; it does not outlive the block."""
    output = cwd / f"output-{time.monotonic_ns()}.txt"
    with output.open("wb") as opened:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=cwd,
            env=environment(env),
            stdout=opened,
            stderr=opened,
            preexec_fn=_hear_interrupts,  # noqa: PLW1509 - nothing else runs in the child before the program does
        )
    try:
        yield Running(process, output)
    finally:
        process.kill()
        process.wait()


def _hear_interrupts() -> None:
    """What a shell starts in the background ignores SIGINT, and hands that on to whatever it starts itself."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def configuration(folder: Path, *, database: str, broker: str, name: str = "clitest", more: str = "") -> None:
    """Write a fencepost.toml. ``more`` are further sections, or further keys of [broker]."""
    (folder / "fencepost.toml").write_text(
        f'[relay]\nname = "{name}"\n\n[database]\nurl = "{database}"\n\n[broker]\nurl = "{broker}"\n{more}\n'
    )
