"""A SQLite file that cannot be opened leaves no thread of the library's behind: its event loop may be closed next."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiosqlite.core
import pytest

from fencepost import plugins
from fencepost.errors import FencepostError
from fencepost.ports import BrokerOptions, DatabaseOptions, LeaseOptions


async def _source(url: str) -> None:
    await plugins.load("database", "sqlite").source(DatabaseOptions(url=url)).connect()


async def _leases(url: str) -> None:
    await plugins.load("election", "sqlite").lease_store(LeaseOptions(url=url)).open()


async def _inbox(url: str) -> None:
    await plugins.load("broker", "sql").broker(BrokerOptions(url=f"inbox+{url}", source="/shop")).open()


@pytest.mark.parametrize("use", [_source, _leases, _inbox])
def test_the_thread_has_ended_when_the_error_is_told(
    use: Callable[[str], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread is held back in the library's own lines of logging, as a loaded machine does."""
    file = tmp_path / "shop.db"
    file.mkdir()  # there, and no file
    monkeypatch.setattr(aiosqlite.core.LOG, "debug", lambda *_: time.sleep(0.02))
    before, threads = set(threading.enumerate()), set[str]()

    async def call() -> None:
        with pytest.raises(FencepostError):
            await use(f"sqlite:///{file}")
        threads.update(t.name for t in set(threading.enumerate()) - before if not t.name.startswith("asyncio_"))

    asyncio.run(call())
    assert not threads
