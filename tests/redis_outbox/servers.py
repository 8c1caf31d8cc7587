"""Redis servers of a test's own: with a password, as a replica, nearly full, as a cluster, from an older file."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

START_S = 20.0


@dataclass
class RedisServer:
    """A server in a folder of its own."""

    folder: Path
    port: int
    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self, **options: Any) -> Any:
        """A client whose connections are closed by ``close``."""
        return redis.Redis(host="127.0.0.1", port=self.port, **options)

    def start(self) -> None:
        place = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder))
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(["redis-server", *self.arguments, *place], stdout=log, stderr=log)
        log.close()
        give_up = time.monotonic() + START_S
        while not self._answers():
            assert time.monotonic() < give_up, (self.folder / "log").read_text()
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
                link.sendall(b"PING\r\n")
                return link.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def kill(self) -> None:
        """As a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def redis_server(folder: Path, *arguments: str) -> Iterator[RedisServer]:
    """A server that runs; killed at the end."""
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    server = RedisServer(folder, free_port(), arguments or ("--save", "", "--appendonly", "no"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
