"""Databases with empty tables: ``place`` is each kind; ``server_place``; ``sqlite_place``, with either journal."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from fencepost.ports import DatabaseOptions
from tests.databases.mariadb_kit import mariadb_database
from tests.interleavings.mariadb import MariadbPlace
from tests.interleavings.place import Place
from tests.interleavings.postgresql import PostgresqlPlace
from tests.interleavings.sqlite import SqlitePlace, SqliteRollbackPlace

TIMEOUT_S = 15.0
KINDS: Mapping[str, type[Place]] = {
    "sqlite": SqlitePlace,
    "sqlite-rollback-journal": SqliteRollbackPlace,
    "postgresql": PostgresqlPlace,
    "mariadb": MariadbPlace,
}
SERVERS = {"postgresql": "interleaved_url", "mariadb": "interleaved_mariadb_url"}
"""The fixture that has the address, for the databases that are servers."""


def kinds(*names: str) -> list[object]:
    return [pytest.param(name, marks=getattr(pytest.mark, name) if name in SERVERS else ()) for name in names]


@pytest.fixture(scope="session")
def interleaved_url(postgresql_url: str) -> Iterator[str]:
    """A PostgreSQL database that is quick to commit and to find a deadlock."""
    name = f"interleaved-{os.getpid():x}-{uuid.uuid4().hex[:8]}"
    database = sql.Identifier(name)
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(database))
        try:
            connection.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(database))
            connection.execute(sql.SQL("ALTER DATABASE {} SET deadlock_timeout = '30ms'").format(database))
            yield urlunsplit(urlsplit(postgresql_url)._replace(path=f"/{name}"))
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))


@pytest.fixture(scope="session")
def interleaved_mariadb_url(mariadb_url: str) -> Iterator[str]:
    """A MariaDB database of its own, which is never at the same time as the tests of another folder."""
    with mariadb_database(mariadb_url, f"interleaved-{os.getpid():x}-{uuid.uuid4().hex[:8]}") as url:
        yield url


@pytest.fixture(params=kinds(*(kind for kind in KINDS if kind != "sqlite-rollback-journal")))
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Each database."""
    async with opened(request, str(request.param), tmp_path) as made:
        yield made


@pytest.fixture(params=kinds("postgresql", "mariadb"))
async def server_place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """PostgreSQL and MariaDB, where several transactions write at once."""
    async with opened(request, str(request.param), tmp_path) as made:
        yield made


@pytest.fixture(params=kinds("postgresql"))
async def postgresql_place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """PostgreSQL."""
    async with opened(request, str(request.param), tmp_path) as made:
        yield made


@pytest.fixture(params=kinds("sqlite", "sqlite-rollback-journal"))
async def sqlite_place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """SQLite, with a write-ahead log and without."""
    async with opened(request, str(request.param), tmp_path) as made:
        yield made


@asynccontextmanager
async def opened(request: pytest.FixtureRequest, kind: str, folder: Path) -> AsyncIterator[Place]:
    url = request.getfixturevalue(SERVERS[kind]) if kind in SERVERS else f"sqlite:///{folder / 'app.db'}"
    made = KINDS[kind](DatabaseOptions(url=url, timeout_s=TIMEOUT_S))
    try:
        await made.open()
        yield made
    finally:
        await made.close()
