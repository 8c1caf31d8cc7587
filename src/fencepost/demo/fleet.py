"""The relays of a demonstration: real processes of `fencepost relay`, to be killed, paused and started again."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from fencepost.clock import Clock
from fencepost.demo.processes import ended, last_line, send, start
from fencepost.errors import FencepostError

_GRACE_S = 10.0
_STARTED = '"event": "relay_started"'


class Fleet:
    """Relay processes of one configuration. Their logs are in ``folder``."""

    def __init__(self, config: Path, folder: Path, env: Mapping[str, str], clock: Clock) -> None:
        self._config, self._folder, self._env, self._clock = config, folder, env, clock
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._logs: dict[int, Path] = {}
        self._starting: set[int] = set()
        self._number = 0

    async def start(self, env: Mapping[str, str] | None = None) -> int:
        """Start one more, ``env`` being added to its environment; its pid."""
        self._number += 1
        log = self._folder / f"relay-{self._number}.log"
        command = [sys.executable, "-m", "fencepost", "relay", "--config", str(self._config)]
        process = await start(command, log, {**self._env, **(env or {})})
        self._processes[process.pid], self._logs[process.pid] = process, log
        self._starting.add(process.pid)
        return process.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """The relays that have not been killed or ended by us, the one that was started first coming first."""
        return tuple(self._processes)

    @property
    def logs(self) -> Mapping[int, Path]:
        """The log of every relay that was ever started, by its pid."""
        return self._logs

    def runs(self, pid: int) -> bool:
        """True for the pid of a relay of ours that has not been killed."""
        return pid in self._processes

    def all_started(self) -> bool:
        """True where every relay has said that it has started."""
        return all(self.has_started(pid) for pid in self._processes)

    def has_started(self, pid: int) -> bool:
        """True where a relay has said so."""
        if pid in self._starting and _says(self._logs[pid], _STARTED):
            self._starting.discard(pid)
        return pid not in self._starting

    async def kill(self, pid: int) -> None:
        """SIGKILL: it gets no chance to finish anything."""
        process = self._processes.pop(pid)
        send(process, signal.SIGKILL)
        await process.wait()

    async def end(self, pid: int) -> None:
        """SIGTERM: it finishes what it has in hand and hands the lease over."""
        await ended(self._processes.pop(pid), grace_s=_GRACE_S)

    def pause(self, pid: int) -> None:
        """SIGSTOP: it is there, holds its connections and does nothing."""
        send(self._processes[pid], signal.SIGSTOP)

    def wake(self, pid: int) -> None:
        """SIGCONT: it goes on as if no time had passed."""
        send(self._processes[pid], signal.SIGCONT)

    def check(self) -> None:
        """Raise FencepostError where a relay has ended by itself."""
        for words in self.fallen():
            raise FencepostError(words, remedy="--keep leaves its configuration and its log")

    def fallen(self) -> list[str]:
        """What there is to say of each relay that has ended by itself; it is none of ours any more."""
        gone = [(pid, process) for pid, process in self._processes.items() if process.returncode is not None]
        for pid, _ in gone:
            del self._processes[pid]
        return [
            f"a relay ended with exit code {process.returncode}: {_last_words(self._logs[pid])}"
            for pid, process in gone
        ]

    async def stop(self) -> None:
        """End all of them in the ordinary way."""
        processes = list(self._processes.values())
        self._processes.clear()
        await asyncio.gather(*(ended(process, grace_s=_GRACE_S) for process in processes))


def _says(log: Path, text: str) -> bool:
    return text in log.read_text(errors="replace")


def _last_words(log: Path) -> str:
    """What a relay wrote last, in words."""
    last = last_line(log)
    try:
        return str(json.loads(last)["text"])
    except (ValueError, LookupError, TypeError):
        return last.removeprefix("error:").strip()
