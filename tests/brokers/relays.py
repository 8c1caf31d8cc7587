"""A relay from a SQLite file to a broker, for what its outbox tells: which rows wait, which are gone."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from fencepost import Outbox
from fencepost.config import Config, load

_PATIENCE_S = 30.0


def configured(url: str, folder: Path, **more: str) -> Config:
    """A relay from a file in the folder to the broker; one attempt is all there is."""
    values = {
        "RELAY__NAME": "orders",
        "RELAY__MAX_ATTEMPTS": "1",
        "RELAY__POLL_S": "0.05",
        "RELAY__RETRY_CAP_S": "0.2",
        "DATABASE__URL": f"sqlite:///{folder}/orders.db",
        "BROKER__URL": url,
        **more,
    }
    return load(None, {f"FENCEPOST_{name}": value for name, value in values.items()})


def add(folder: Path, *topics: str, key: str = "") -> None:
    """Commit one message on each topic, each with a key of its own unless one is given."""
    with closing(sqlite3.connect(folder / "orders.db")) as connection, connection:
        for number, topic in enumerate(topics):
            Outbox().add(connection, topic, {"number": number}, key=key or f"{topic}-{number}")


def waiting(folder: Path) -> list[str]:
    """The topics of the rows in the outbox."""
    with closing(sqlite3.connect(folder / "orders.db")) as connection:
        return [topic for (topic,) in connection.execute("SELECT topic FROM fencepost_outbox ORDER BY seq")]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something."""
    async with asyncio.timeout(_PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)
