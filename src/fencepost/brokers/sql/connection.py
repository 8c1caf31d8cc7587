"""Connections to the consumer's database: how each is set up, and what is refused before there is one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fencepost.brokers.sql.store import IDLE_S
from fencepost.errors import AccessDenied, ConnectionLost, FixError
from fencepost.sql.client import Client, SqliteClient, client
from fencepost.sql.link import Link, Wire
from fencepost.sql.mariadb_address import ISOLATION, session_settings
from fencepost.sql.other import OTHERS
from fencepost.sql.other_engine import settle_in
from fencepost.sql.tables import MARIADB

_POSTGRESQL = (
    "SET timezone = 'UTC'",
    "SET jit = off",
    # What the client has given up must not live on in the server, nor a transaction of a relay that is paused.
    "SET statement_timeout = {timeout_ms}",
    "SET idle_in_transaction_session_timeout = {idle_ms}",
    # What is committed is settled in the outbox: it must not be lost when the server falls.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)
_MARIADB = (
    ISOLATION,
    f"SET SESSION sql_mode = 'STRICT_ALL_TABLES' /*M! , idle_transaction_timeout = {IDLE_S} */",
)
_SQLITE = ("PRAGMA synchronous = FULL",)


class Database:
    """Where it is, as whom to log in, and how each connection is set up."""

    def __init__(self, url: str, timeout_s: float, *, create: bool) -> None:
        """Raises ConfigurationError, or MissingExtra."""
        self._url, self._timeout_s, self._create = url, timeout_s, create
        first = self.client()
        self.place, self.dialect = first.place, first.engine.dialect
        self._path = first.path if isinstance(first, SqliteClient) else None

    @property
    def is_absent(self) -> bool:
        """It is a file that is not there. Raises FixError where it could not be made or written either."""
        path = self._path
        if path is None:
            return False
        if not path.parent.is_dir():
            raise FixError(f"{self.place}: there is no folder {path.parent}", remedy=f"mkdir -p {path.parent}")
        for each in (path, path.parent):  # the journal stands beside the file
            if each.exists() and not os.access(each, os.W_OK):
                raise AccessDenied(
                    f"{each} is read-only for this process", remedy="let the user of this process write to it"
                )
        return not path.exists()

    def client(self) -> Client:
        """A new one. Each ends its own last connection."""
        return client(self._url, self._timeout_s, create=self._create)

    def file(self) -> tuple[int, int] | None:
        """Which file stands there now; None where there is none."""
        try:
            found = self._path.stat() if self._path is not None else None
        except OSError:
            return None
        return None if found is None else (found.st_dev, found.st_ino)

    async def set_up(self, wire: Wire) -> None:
        """Make a new connection ready."""
        name = self.dialect.name
        if name in OTHERS:
            await settle_in(wire.connection, self._timeout_s)
            return
        commands: Sequence[str] = _SQLITE if name == "sqlite" else _POSTGRESQL
        if name in MARIADB:
            commands = (session_settings(self._timeout_s), *_MARIADB)
        for command in commands:
            await wire.say(command.format(timeout_ms=max(1, int(self._timeout_s * 1000)), idle_ms=IDLE_S * 1000))


class Line:
    """A connection to a database, made when it is used, and again after each trouble."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._file: tuple[int, int] | None = None
        client = database.client()
        self._link = Link(client.engine, client.place, self._opened, client.abort)

    @property
    def up(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._link.up

    @asynccontextmanager
    async def use(self, timeout_s: float) -> AsyncIterator[Wire]:
        """See Link. What was written to a file that is gone has not been written."""
        async with self._link.use(timeout_s) as wire:
            self._must_be_the_same()
            yield wire
            self._must_be_the_same()

    async def close(self) -> None:
        """End the connection, also under a call that is still running. Never raises."""
        await self._link.close()

    async def _opened(self, wire: Wire) -> None:
        await self._database.set_up(wire)
        self._file = self._database.file()

    def _must_be_the_same(self) -> None:
        if self._file != self._database.file():
            raise ConnectionLost(f"{self._database.place}: the file was removed, or another one took its place")
