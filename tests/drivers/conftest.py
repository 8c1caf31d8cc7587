"""An outbox for each test: a schema of its own in one PostgreSQL or MariaDB, or a SQLite file."""

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from tests.databases.mariadb_kit import mariadb_database
from tests.drivers.connections import Connect
from tests.drivers.ways import WAYS, Place, Way


@pytest.fixture(scope="session")
def postgresql_place(postgresql_url: str) -> Iterator[Place]:
    """One PostgreSQL outbox for all tests of this folder, in a database of its own, with names that need quoting."""
    name = f"writers-{os.getpid():x}-{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            connection.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(name)))
            url = urlunsplit(urlsplit(postgresql_url)._replace(path=f"/{name}"))
            place = Place(url, "my schema", "it's 100%_")
            place.create()
            yield place
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def postgresql(postgresql_place: Place) -> Place:
    """The PostgreSQL outbox, empty."""
    postgresql_place.clear()
    return postgresql_place


@pytest.fixture(scope="session")
def mariadb_place(mariadb_url: str) -> Iterator[Place]:
    """One MariaDB outbox for all tests of this folder, in a database of its own, with names that need quoting."""
    name = f"my writers {os.getpid():x}-{uuid.uuid4().hex[:8]}"
    with mariadb_database(mariadb_url, f"other {name}") as url:
        place = Place(url, name, "it's 100%_")
        place.create()
        yield place
        with place.engine().begin() as connection:
            connection.execute(sa.schema.DropSchema(name))


@pytest.fixture
def mariadb(mariadb_place: Place) -> Place:
    """The MariaDB outbox, empty."""
    mariadb_place.clear()
    return mariadb_place


@pytest.fixture
def sqlite(tmp_path: Path) -> Place:
    """A SQLite outbox."""
    place = Place(f"sqlite:///{tmp_path / 'application.db'}")
    place.create()
    return place


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def place(request: pytest.FixtureRequest) -> Place:
    """An outbox on each database."""
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=WAYS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    """Each way of talking to a database."""
    found: Way = request.param
    return found


@pytest.fixture
def way_place(way: Way, request: pytest.FixtureRequest) -> Place:
    """An outbox on the database of the way."""
    found: Place = request.getfixturevalue(way.database)
    return found


@pytest.fixture
async def connect(postgresql: Place) -> AsyncIterator[Connect]:
    """Opens connections that are closed at the end."""
    async with AsyncExitStack() as stack:

        async def opened() -> Any:
            connection = await asyncpg.connect(postgresql.url)
            stack.push_async_callback(connection.close, timeout=5)
            return connection

        yield opened
