"""A PostgreSQL of the run's own with an asynchronous standby, behind one address: it can lose its last transactions.

The standby follows through a proxy. When that is cut, the primary goes on alone; then it is killed, the standby is
promoted, and the one address leads there.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fencepost import plugins
from fencepost.clock import Clock
from fencepost.demo.ports import HOST, free_port
from fencepost.demo.processes import last_line, send
from fencepost.errors import MissingExtra, Unavailable
from fencepost.testing.torture.proxy import Link, Trouble

USER, DATABASE = "postgres", "postgres"
_SETTINGS = {"listen_addresses": HOST, "unix_socket_directories": "", "max_connections": "200", "wal_level": "logical"}
_START_S = 60.0
_CUT = Trouble("cut")


class _Node:
    """One server: its data, its port, its process."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.data, self.log, self._clock = folder / "data", folder / "server.log", clock
        self.port = free_port(clock)
        self._process: asyncio.subprocess.Process | None = None
        folder.mkdir()
        _give_away(folder)

    async def start(self) -> None:
        """Start it and wait until it answers. Raises Unavailable."""
        import asyncpg  # who asks for no standby need not have it

        settings = [f"{name}={value}" for name, value in {**_SETTINGS, "port": str(self.port)}.items()]
        options = [word for setting in settings for word in ("-c", setting)]
        self._process = await _started([program("postgres"), "-D", str(self.data), *options], self.log)
        give_up = self._clock.monotonic() + _START_S
        while self._process.returncode is None and self._clock.monotonic() < give_up:
            try:
                await self.ask("SELECT 1")
            except (OSError, asyncpg.PostgresError):
                await self._clock.sleep(0.1)
            else:
                return
        raise Unavailable(f"PostgreSQL did not start: {last_line(self.log)}")

    async def ask(self, statement: str) -> object:
        """The answer to a statement, on a connection of its own."""
        import asyncpg

        connection = await asyncpg.connect(host=HOST, port=self.port, user=USER, database=DATABASE, timeout=10)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    async def end(self, number: signal.Signals) -> None:
        """Send a signal and wait for the end."""
        if self._process is not None:
            send(self._process, number)
            await self._process.wait()


class Pair:
    """``url`` leads to whichever is the primary."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._nodes: list[_Node] = []
        self._links: list[Link] = []
        self._primary = self._node()
        self._standby: _Node | None = None
        self._follows: Link | None = None
        self._front = self._link()

    @property
    def url(self) -> str:
        """Where the primary is."""
        return f"postgresql://{USER}@{HOST}:{self._front.port}/{DATABASE}"

    async def start(self) -> None:
        """Both. Raises MissingExtra where PostgreSQL or its client library is not installed, or Unavailable."""
        plugins.load("driver", "asyncpg")
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        await _done([program("initdb"), "-D", str(self._primary.data), *options], self._primary.log)
        await self._primary.start()
        await self._front.open()
        await self._follow()

    async def fall_back(self, seconds: float) -> None:
        """The standby stops following, ``seconds`` pass, the primary is killed, the standby takes its place; then
        there is a new standby.
        """
        standby, follows = self._standby, self._follows
        if standby is None or follows is None:
            raise Unavailable("there is no standby yet")
        self._standby = self._follows = None
        follows.begin(_CUT)
        await self._clock.sleep(seconds)
        await self._primary.end(signal.SIGKILL)
        self._front.begin(_CUT)
        await standby.ask("SELECT pg_promote(true, 60)")
        await follows.close()
        self._primary, self._front.target = standby, (HOST, standby.port)
        self._front.end(_CUT)
        await self._follow()

    async def stop(self) -> None:
        """All that was started, and what leads to it."""
        for link in self._links:
            await link.close()
        for node in self._nodes:
            await node.end(signal.SIGINT)

    async def _follow(self) -> None:
        """A new standby, a copy of the primary that follows it from now on."""
        follows, standby = self._link(), self._node()
        await follows.open()
        source = f"host={HOST} port={follows.port} user={USER}"
        copy = [program("pg_basebackup"), "-D", str(standby.data), "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        await _done([*copy, "-d", source], standby.log)
        await standby.start()
        self._standby, self._follows = standby, follows

    def _node(self) -> _Node:
        self._nodes.append(_Node(self._folder / f"node-{len(self._nodes) + 1}", self._clock))
        return self._nodes[-1]

    def _link(self) -> Link:
        self._links.append(Link((HOST, self._primary.port), self._clock))
        return self._links[-1]


@asynccontextmanager
async def pair(clock: Clock) -> AsyncIterator[Pair]:
    """A pair that runs, removed at the end. Its folder is one that PostgreSQL's own account may enter."""
    folder = _folder()
    made = Pair(folder, clock)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fencepost-pair-", dir="/tmp" if _account() else None))  # noqa: S108
    folder.chmod(0o755)
    return folder


def program(name: str) -> str:
    """Debian keeps them in versioned folders; the newest is taken."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda f: float(f.parent.name), reverse=True)
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, folders)))
    if found is None:
        raise MissingExtra(
            f"--standby needs PostgreSQL's {name}, which is not installed", remedy="install PostgreSQL 14+"
        )
    return found


def _account() -> str | None:
    """PostgreSQL refuses to run as root."""
    return USER if os.geteuid() == 0 else None


def _give_away(folder: Path) -> None:
    if account := _account():
        shutil.chown(folder, account, account)


async def _started(command: Sequence[str], log: Path) -> asyncio.subprocess.Process:
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            user=_account(),
            start_new_session=True,
        )


async def _done(command: Sequence[str], log: Path) -> None:
    process = await _started(command, log)
    if await process.wait():
        raise Unavailable(f"{Path(command[0]).name} failed: {last_line(log)}")
