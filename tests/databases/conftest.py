"""A fresh outbox in each database."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fencepost.ports import DatabaseOptions, Session
from tests.databases.mariadb_kit import mariadb_database
from tests.databases.places import Connect, MariadbPlace, Place, PostgresqlPlace, SqlitePlace

TIMEOUT_S = 10.0


@pytest.fixture
async def postgresql(postgresql_url: str, fresh_name: str) -> AsyncIterator[PostgresqlPlace]:
    """An empty outbox in PostgreSQL, with tables of its own."""
    prefix = f"{fresh_name.replace('-', '_')}_"
    place = PostgresqlPlace(DatabaseOptions(url=postgresql_url, prefix=prefix, timeout_s=TIMEOUT_S))
    await place.schema.apply()
    yield place
    place.drop()


@pytest.fixture(scope="session")
def outbox_database(mariadb_url: str) -> Iterator[str]:
    """A database of a MariaDB, for the tests of this folder."""
    with mariadb_database(mariadb_url, f"outboxes-{os.getpid():x}-{uuid.uuid4().hex[:8]}") as url:
        yield url


@pytest.fixture
async def mariadb(outbox_database: str, fresh_name: str) -> AsyncIterator[MariadbPlace]:
    """An empty outbox in MariaDB, with tables of its own."""
    prefix = f"{fresh_name.replace('-', '_')}_"
    place = MariadbPlace(DatabaseOptions(url=outbox_database, prefix=prefix, timeout_s=TIMEOUT_S))
    await place.schema.apply()
    yield place
    place.drop()


@pytest.fixture
async def sqlite(tmp_path: Path) -> SqlitePlace:
    """An empty outbox in a SQLite file of its own, with a write-ahead log."""
    path = tmp_path / "a folder" / "app.db"
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    place = SqlitePlace(DatabaseOptions(url=f"sqlite:///{path}", timeout_s=TIMEOUT_S))
    await place.schema.apply()
    return place


@pytest.fixture(params=[*(pytest.param(n, marks=getattr(pytest.mark, n)) for n in ("postgresql", "mariadb")), "sqlite"])
def place(request: pytest.FixtureRequest) -> Place:
    """An empty outbox, in each database."""
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens sessions."""
    opened: list[Session] = []

    async def connect(place: Place) -> Session:
        opened.append(await place.source.connect())
        return opened[-1]

    yield connect
    for session in opened:
        await session.close()


@pytest.fixture
async def session(place: Place) -> AsyncIterator[Session]:
    """A session with it."""
    opened = await place.source.connect()
    yield opened
    await opened.close()
