"""A server of a test's own, which it may stop, pause, kill and start again: it keeps its ports and its folder."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from servers.lifecycle import wait_until_it_answers
from servers.ports import pick
from servers.server import Server
from servers.state import Place
from tests.services import absent

START_S = 90.0
END_S = 30.0
POLL_S = 0.02


class OwnServer:
    """``kind`` says how it is prepared and started: one of ``dev/servers``, or one with settings that a test needs."""

    def __init__(self, kind: Server, folder: Path) -> None:
        self.kind = kind
        self.place = Place(folder)
        for name in kind.port_names:
            self.place.ports[name] = pick(self.place.ports.values())
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def port(self) -> int:
        """Where clients find it."""
        return self.place.ports["client"]

    @contextmanager
    def running(self) -> Iterator[Self]:
        """It runs, and is killed at the end. Where its program is missing see ``absent``."""
        if not self.kind.is_installed():
            absent(f"{self.kind.name} is not installed: run `dev/services install {self.kind.name}`")
        self.place.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.start()
            yield self
        finally:
            self.end()

    def start(self) -> None:
        """Start it, or what has ended of it, and wait until it answers."""
        self.kind.prepare(self.place)
        self._processes = [one for one in self._processes if one.poll() is None]
        for launch in self.kind.launches(self.place)[len(self._processes) :]:
            with self.place.log.open("ab") as log:
                env = {**os.environ, **launch.env}
                self._processes.append(
                    subprocess.Popen(launch.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
                )
        wait_until_it_answers(self.kind, self.place, time.monotonic() + START_S, self._runs, POLL_S)

    def _runs(self) -> bool:
        return all(one.poll() is None for one in self._processes)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the server itself by a signal, and wait until it has; what it needs beside it stays."""
        self.send_signal(number)
        self._processes.pop().wait(END_S)

    def kill(self) -> None:
        """End it as a power failure would."""
        self.stop(signal.SIGKILL)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It does nothing for as long as the block lasts, or until it is killed there."""
        process = self._processes[-1]
        self.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            if process.poll() is None:
                self.send_signal(signal.SIGCONT)

    def send_signal(self, number: int) -> None:
        """Send the server itself a signal."""
        pids = self.kind.companions(self.place) or [self._processes[-1].pid]
        os.kill(pids[0], number)

    def end(self) -> None:
        """End all of it, whether it runs, is paused, was killed or has never come up."""
        with suppress(OSError, IndexError, ValueError):  # it does not run, or its process is not known yet
            self.send_signal(signal.SIGKILL)
        for one in reversed(self._processes):
            one.kill()
            one.wait(END_S)
        self._processes.clear()
