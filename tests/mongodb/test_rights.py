"""Wrong credentials and too few rights are told at the start, with what is lacking. On a server of its own."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from pymongo import MongoClient

from fencepost.databases import mongodb
from fencepost.elections import mongodb as leases
from fencepost.errors import AccessDenied
from fencepost.ports import DatabaseOptions, LeaseOptions
from servers.mongo_wire import is_answered
from servers.ports import pick
from servers.secantusdb import PROGRAM

pytestmark = pytest.mark.long

START_S = 60.0


@contextmanager
def server(folder: Path, port: int, *options: str) -> Iterator[None]:
    """The server, until the block ends."""
    argv = [str(PROGRAM), "--host", "127.0.0.1", "--port", str(port), "--storage-path", str(folder / "data"), *options]
    with (folder / "log").open("ab") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        try:
            deadline = time.monotonic() + START_S
            while not answers(port):
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.1)
            yield
        finally:
            process.send_signal(signal.SIGTERM)


def answers(port: int) -> bool:
    try:
        return is_answered(port)
    except OSError:
        return False


@asynccontextmanager
async def with_accounts(folder: Path) -> AsyncIterator[str]:
    """Accounts are made while nobody is asked for one. The address of the server, without an account."""
    port = pick(())
    with server(folder, port):
        client: MongoClient[dict[str, object]] = MongoClient(f"mongodb://127.0.0.1:{port}")
        with client:
            for name, role in (("app", "readWrite"), ("reader", "read")):
                client["shop"].command("createUser", name, pwd="secret", roles=[{"role": role, "db": "shop"}])
    with server(folder, port, "--auth"):
        yield f"127.0.0.1:{port}/shop"


async def test_who_may_not_is_told_what_is_lacking(tmp_path: Path, secantusdb_url: str) -> None:
    async with with_accounts(tmp_path) as address:
        for account, words in (
            ("app:wrong@", "authentication failed: check user"),
            ("reader:secret@", "role readWrite"),
        ):
            options = DatabaseOptions(url=f"mongodb://{account}{address}", timeout_s=10.0)
            if account.startswith("reader"):
                await mongodb.schema(DatabaseOptions(url=f"mongodb://app:secret@{address}")).apply()
            with pytest.raises(AccessDenied, match=words):
                await mongodb.source(options).connect()
            with pytest.raises(AccessDenied, match=words):
                await rehearsed(options.url)
        session = await mongodb.source(DatabaseOptions(url=f"mongodb://app:secret@{address}")).connect()
        await session.close()


async def rehearsed(url: str) -> None:
    """What `fencepost check` asks of a lease store."""
    store = leases.lease_store(LeaseOptions(url=url))
    try:
        await store.open()
        await store.rehearse()
    finally:
        await store.close()
