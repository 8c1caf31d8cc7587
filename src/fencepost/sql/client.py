"""Connections of one's own to any SQL database, through SQLAlchemy: where they lead, and how to end one at once.

A client makes no connection by itself: ``fencepost.sql.link`` does, and lives with what happens to it.
"""

from __future__ import annotations

import asyncio
import importlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from fencepost.errors import ConfigurationError, MissingExtra
from fencepost.sql import cockroachdb
from fencepost.sql.address import file_in
from fencepost.sql.faults import greeting
from fencepost.sql.link import OWN_POOL
from fencepost.sql.mariadb_address import connect_arguments, place_of
from fencepost.sql.other import KINDS
from fencepost.sql.other_engine import engine_in, place_in
from fencepost.sql.postgresql_address import dsn_of
from fencepost.sql.sqlite_opening import opened

_BUSY_SHARE = 0.8
"""Of the deadline: so that SQLite says first that it is busy."""


class Client(Protocol):
    """``place`` names the database in errors, without a password."""

    engine: AsyncEngine
    place: str

    def abort(self) -> None:
        """End the driver's last connection at once, without waiting for the server."""
        ...


class PostgresqlClient:
    """PostgreSQL through asyncpg."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """Raises ConfigurationError, or MissingExtra."""
        self._driver = library("asyncpg", "postgresql")
        self._dsn = dsn_of(url)
        self._timeout_s = timeout_s
        self._last: Any = None
        self.place = _without_password(self._dsn)
        self.engine = create_async_engine(
            "postgresql+asyncpg://",
            **OWN_POOL,
            isolation_level="AUTOCOMMIT",
            connect_args={
                "async_creator_fn": self._connect,
                # Without names and without a cache: behind a pooler the next server would not know them.
                "prepared_statement_cache_size": 0,
                "prepared_statement_name_func": str,
            },
        )

    async def _connect(self) -> Any:
        with greeting(self._dsn):
            self._last = await self._driver.connect(self._dsn, timeout=self._timeout_s, statement_cache_size=0)
        cockroachdb.refuse(self._last.get_settings(), self.place)
        return self._last

    def abort(self) -> None:
        """See Client."""
        last, self._last = self._last, None
        if last is not None:
            last.terminate()


class MariadbClient:
    """MariaDB and MySQL through asyncmy."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """Raises ConfigurationError, or MissingExtra."""
        self._driver = library("asyncmy", "mariadb")
        self._arguments = connect_arguments(url)
        self._timeout_s = timeout_s
        self._last: Any = None
        self.place = place_of(url)
        self.engine = create_async_engine(
            "mysql+asyncmy://",
            **OWN_POOL,
            isolation_level="AUTOCOMMIT",
            connect_args={"async_creator_fn": self._connect},
        )

    async def _connect(self, *_: object, **__: object) -> Any:
        self._last = await self._driver.connect(**self._arguments, connect_timeout=self._timeout_s)
        return self._last

    def abort(self) -> None:
        """See Client."""
        last, self._last = self._last, None
        if last is not None:
            last.close()


class SqliteClient:
    """SQLite through aiosqlite. ``create``: the file may be made."""

    def __init__(self, url: str, timeout_s: float, *, create: bool = False) -> None:
        """Raises ConfigurationError, or MissingExtra."""
        driver = library("aiosqlite", "sqlite")
        self.path = _file(url)
        self.place = f"sqlite:///{self.path}"
        query = {"mode": "rwc" if create else "rw", "uri": "true"}
        self.engine = create_async_engine(
            URL.create("sqlite+aiosqlite", database=f"file:{quote(str(self.path))}", query=query),
            **OWN_POOL,
            isolation_level="AUTOCOMMIT",
            connect_args={"timeout": timeout_s * _BUSY_SHARE, "async_creator_fn": partial(opened, driver)},
        )
        self._ending: set[asyncio.Task[None]] = set()
        sa.event.listen(self.engine.sync_engine, "invalidate", self._roll_back)

    def _roll_back(self, connection: Any, *_: object) -> None:
        """A connection that is closed keeps its lock for as long as anything, such as the traceback of a cancelled
        call, knows of one of its cursors. So it is rolled back before; nobody waits for that, but the close does.
        """
        with suppress(RuntimeError):  # no loop is running: nobody works on it any more
            ending = asyncio.get_running_loop().create_task(connection.driver_connection.rollback())
            self._ending.add(ending)
            ending.add_done_callback(self._ended)

    def _ended(self, ending: asyncio.Task[None]) -> None:
        self._ending.discard(ending)
        if not ending.cancelled():
            ending.exception()  # it was closed already

    def abort(self) -> None:
        """Its thread ends when its statement does."""


class OtherClient:
    """Oracle, SQL Server and CockroachDB: compiled, not run."""

    def __init__(self, url: str) -> None:
        """Raises ConfigurationError, or MissingExtra."""
        self.place = place_in(url)
        self.engine = engine_in(url)
        self._last: Any = None
        sa.event.listen(self.engine.sync_engine, "connect", self._connected)

    def _connected(self, connection: Any, _: object) -> None:
        self._last = connection

    def abort(self) -> None:
        """See Client. Of asyncpg's; of the others a thread, or a reader that is cancelled, lets go."""
        last, self._last = self._last, None
        end = getattr(getattr(last, "driver_connection", None), "terminate", None)
        if end is not None:
            end()


def client(url: str, timeout_s: float, *, create: bool = False) -> Client:
    """The client of a URL. ``create`` allows a file to be made. Raises ConfigurationError, or MissingExtra."""
    name = url.partition("://")[0].partition("+")[0].lower()
    if name in {"postgresql", "postgres"}:
        return PostgresqlClient(url, timeout_s)
    if name in {"mariadb", "mysql"}:
        return MariadbClient(url, timeout_s)
    if name == "sqlite":
        return SqliteClient(url, timeout_s, create=create)
    if name in KINDS:
        return OtherClient(url)
    known = ", ".join(sorted({"postgresql", "mariadb", "mysql", "sqlite", *KINDS}))
    raise ConfigurationError(f"{name!r} is no SQL database that is known", remedy=f"use one of {known}")


def library(name: str, extra: str) -> Any:
    """A driver's module. Raises MissingExtra."""
    try:
        importlib.import_module("greenlet")
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        what = f"{extra} needs the library {error.name!r}, which is not installed"
        raise MissingExtra(what, remedy=f'pip install "fencepost[{extra}]"') from error


def _without_password(dsn: str) -> str:
    scheme, _, rest = dsn.partition("?")[0].partition("://")
    login, at, where = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}://{user}{':***' if colon else ''}{at}{where}"


def _file(url: str) -> Path:
    name = file_in(url)
    if not name or name == ":memory:" or name.startswith("file:"):
        raise ConfigurationError(
            f"{url.partition('?')[0]!r} names no file that others could open", remedy="write sqlite:///PATH"
        )
    return Path(name).resolve()
