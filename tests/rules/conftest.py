"""Failing rules show what they compared; and a database of PostgreSQL in which the rules make tables of their own."""

import os
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from tests.databases.mariadb_kit import mariadb_database

pytest.register_assert_rewrite("fencepost.testing")


@pytest.fixture(scope="session")
def rules_database(postgresql_url: str) -> Iterator[str]:
    """The address of an empty database that nobody else uses."""
    name = f"rules-{os.getpid():x}-{uuid.uuid4().hex[:10]}"
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlunsplit(urlsplit(postgresql_url)._replace(path=f"/{name}"))
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def rules_mariadb(mariadb_url: str) -> Iterator[str]:
    """The same of a MariaDB."""
    with mariadb_database(mariadb_url, f"rules-{os.getpid():x}-{uuid.uuid4().hex[:10]}") as url:
        yield url
