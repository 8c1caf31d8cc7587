"""A signal that comes before a relay has a loop: remembered, and then the ordinary end."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.cli.early import SAME_S
from fencepost.cli.failures import FIX_NEEDED, OK
from tests.cli.process import CLOSED, configuration, run, running


def wait_until_caught(pid: int, number: signal.Signals) -> None:
    """Wait until the process has a handler of its own for the signal."""
    give_up = time.monotonic() + 20
    while not _caught(pid) >> (number - 1) & 1:
        assert time.monotonic() < give_up
        time.sleep(0.001)


def _caught(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("SigCgt:")), 16)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_relay_is_loading(number: signal.Signals, tmp_path: Path) -> None:
    configuration(tmp_path, database="sqlite:///orders.db", broker=f"nats://{CLOSED}")
    assert run("schema", "apply", cwd=tmp_path).returncode == OK
    with running("relay", cwd=tmp_path) as relay:
        wait_until_caught(relay.process.pid, signal.SIGTERM)
        assert relay.said() == "", "it is loading"
        assert relay.ended(number) == OK, relay.said()
        lines = [json.loads(line) for line in relay.said().splitlines()]
    assert [line["event"] for line in lines] == ["starting", "stopping", "stopped"]
    assert lines[1]["text"].startswith(f"{number.name}: ")


def test_a_mistake_is_told_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "fencepost.toml").write_text("[relay]\n")
    with running("--debug", "relay", cwd=tmp_path) as relay:
        wait_until_caught(relay.process.pid, signal.SIGTERM)
        assert relay.ended(signal.SIGTERM) == FIX_NEEDED
        assert "[relay] name is missing" in relay.said()


@contextmanager
def listening(*words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that goes on loading for a while."""
    program = f"import time\nfrom fencepost.cli.early import Early\nEarly().listen({words!r})\ntime.sleep(30)"
    with subprocess.Popen([sys.executable, "-W", "error", "-c", program]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_second_one_ends_it_at_once() -> None:
    with listening("relay", "--config", "x.toml") as process:
        wait_until_caught(process.pid, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)  # what a wrapper hands on is not somebody's second wish
        time.sleep(2 * SAME_S)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == -signal.SIGTERM


@pytest.mark.parametrize("words", [(), ("status", "--watch"), ("--version",), ("check", "relay")])
def test_other_commands_end_as_ever(words: tuple[str, ...]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        from fencepost.cli.early import Early

        Early().listen(words)
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGTERM, before)
