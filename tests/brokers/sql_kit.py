"""What the tests of the inbox table share: a database of its own, seen with plain SQL, and brokers for it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from fencepost.brokers.sql import broker
from fencepost.ports import Broker, BrokerOptions, Handoff, Lane
from tests.brokers.opened import opened, owning
from tests.databases.mariadb_kit import ask

LANE = Lane("orders")


@dataclass(frozen=True)
class Inbox:
    """The database of a consumer. ``url`` is without "inbox+"."""

    url: str

    @property
    def kind(self) -> str:
        """postgresql, mysql or sqlite."""
        return self.url.partition(":")[0]

    def broker(
        self, *, url: str | None = None, create: bool = True, timeout_s: float = 20.0, **settings: object
    ) -> Broker:
        """A broker for it."""
        address = f"inbox+{url or self.url}"
        return broker(BrokerOptions(url=address, source="/shop", create=create, timeout_s=timeout_s, settings=settings))

    def opened(self, **options: Any) -> AbstractAsyncContextManager[Broker]:
        """A broker that is open."""
        return opened(self.broker(**options))

    def handoff(self, token: int = 1, **options: Any) -> AbstractAsyncContextManager[Handoff]:
        """The right to publish, of a broker of its own."""
        return owning(self.broker(**options), LANE, token)

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        """Plain SQL, in a transaction of its own."""
        if self.kind == "sqlite":
            with closing(sqlite3.connect(self.path, timeout=10)) as connection, connection:
                return connection.execute(text).fetchall()
        if self.kind == "mysql":
            return ask(self.url, text)
        with psycopg.connect(self.url, autocommit=True) as server:
            cursor = server.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def ids(self) -> list[str]:
        """What a consumer reads, oldest first."""
        return [str(name) for (name,) in self.ask("SELECT id FROM fencepost_messages ORDER BY seq")]

    @property
    def path(self) -> Path:
        """The file of a SQLite."""
        return Path(urlsplit(self.url).path[1:])

    async def connected(self, count: int) -> None:
        """Wait until so many sessions of relays wait for a lock (PostgreSQL and MariaDB)."""
        waiting = {
            "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'",
            "mysql": "SELECT count(*) FROM information_schema.innodb_trx JOIN information_schema.processlist"
            " ON trx_mysql_thread_id = id WHERE db = database() AND trx_state = 'LOCK WAIT'",
        }[self.kind]
        for _ in range(100):
            ((found,),) = await asyncio.to_thread(self.ask, waiting)
            if found >= count:
                return
            await asyncio.sleep(0.15)  # MariaDB shows the same again to whoever asks more often
        raise AssertionError("nobody waits for a lock")

    def kill(self) -> None:
        """End every session that waits for something, from the server's side."""
        if self.kind == "postgresql":
            self.ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            return
        own = "SELECT id FROM information_schema.processlist WHERE db = database() AND state = 'Updating'"
        for (number,) in self.ask(own):
            self.ask(f"KILL {number}")


def inbox_of(request: pytest.FixtureRequest) -> Inbox:
    """The database that a fixture's parameter names."""
    inbox: Inbox = request.getfixturevalue(f"on_{request.param}")
    return inbox


def login(url: str, user: str) -> str:
    """The same address for another user."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}"))
