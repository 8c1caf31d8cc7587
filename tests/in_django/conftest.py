"""The project, and for each test a database with the tables in "default" (of each kind), another in "other"."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from tests.databases.mariadb_kit import mariadb_database
from tests.in_django import project

project.configure()

from django.core.management import call_command  # noqa: E402 - only in a configured process
from django.db import connections  # noqa: E402


@dataclass(frozen=True)
class Database:
    """What an alias leads to. ``url`` is a plain one."""

    alias: str
    url: str

    @property
    def kind(self) -> str:
        """sqlite, postgresql or mysql."""
        return self.url.partition(":")[0]

    def rows(
        self, columns: str = "key, version, CAST(payload AS TEXT)", table: str = "outbox"
    ) -> list[tuple[Any, ...]]:
        """What stands in a table, as Django reads it."""
        if self.kind == "postgresql":
            columns = columns.replace("CAST(payload AS TEXT)", "convert_from(payload, 'UTF8')")
        if self.kind == "mysql":
            columns = columns.replace("CAST(payload AS TEXT)", "CONVERT(payload USING utf8mb4)")
            columns = re.sub(r"\bkey\b", "`key`", columns)
        with connections[self.alias].cursor() as cursor:
            cursor.execute(f"SELECT {columns} FROM fencepost_{table} ORDER BY seq")
            return list(cursor.fetchall())


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the tables of all apps."""
    path = tmp_path_factory.mktemp("django") / "filled.db"
    project.place("default", project.entry(f"sqlite:///{path}"))
    call_command("migrate", verbosity=0)
    project.forget("default")
    return path


@pytest.fixture(scope="session")
def filled_postgresql(postgresql_url: str) -> Iterator[str]:
    """A PostgreSQL database with the outbox's tables."""
    name = f"django-{uuid.uuid4().hex[:10]}"
    url = urlunsplit(urlsplit(postgresql_url)._replace(path=f"/{name}"))
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            project.place("default", project.entry(url))
            call_command("migrate", "fencepost", verbosity=0)
            project.forget("default")
            yield url
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _emptied(url: str) -> str:
    with psycopg.connect(url) as connection:
        connection.execute("TRUNCATE fencepost_outbox, fencepost_entity, fencepost_parked, fencepost_lane")
    return url


@pytest.fixture(scope="session")
def filled_mariadb(mariadb_url: str) -> Iterator[str]:
    """A MariaDB database with the tables of all apps."""
    with mariadb_database(mariadb_url, f"django-{uuid.uuid4().hex[:10]}") as url:
        project.place("default", project.entry(url))
        call_command("migrate", verbosity=0)
        project.forget("default")
        yield url


def _emptied_mariadb(url: str) -> str:
    """Positions begin at 1 again."""
    project.place("default", project.entry(url))
    with connections["default"].cursor() as cursor:
        cursor.execute("TRUNCATE fencepost_outbox")
        for table in ("fencepost_entity", "fencepost_parked", "django_admin_log", "auth_user_user_permissions"):
            cursor.execute(f"DELETE FROM {table}")
        cursor.execute("DELETE FROM auth_user")
    project.forget("default")
    return url


@pytest.fixture
def mariadb(filled_mariadb: str) -> Iterator[Database]:
    """MariaDB as "default", with the tables of all apps."""
    yield from _placed("default", _emptied_mariadb(filled_mariadb))


@pytest.fixture
def sqlite(filled_file: Path, tmp_path: Path) -> Iterator[Database]:
    """SQLite as "default", with the tables of all apps."""
    copy = shutil.copy(filled_file, tmp_path / "default.db")
    yield from _placed("default", f"sqlite:///{copy}")


@pytest.fixture
def postgresql(filled_postgresql: str) -> Iterator[Database]:
    """PostgreSQL as "default", with the outbox's tables."""
    yield from _placed("default", _emptied(filled_postgresql))


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def default(request: pytest.FixtureRequest) -> Database:
    """Each kind as "default"."""
    found: Database = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["sqlite", "mariadb"])
def complete(request: pytest.FixtureRequest) -> Database:
    """Two kinds as "default", with the tables of all apps."""
    found: Database = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def other(filled_file: Path, tmp_path: Path) -> Iterator[Database]:
    """SQLite as "other", with the tables of all apps."""
    copy = shutil.copy(filled_file, tmp_path / "other.db")
    yield from _placed("other", f"sqlite:///{copy}")


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path) -> Iterator[None]:
    """What a test does not place is empty."""
    for alias in ("default", "other"):
        project.place(alias, project.entry(f"sqlite:///{tmp_path / 'nowhere.db'}"))
    yield
    for alias in ("default", "other"):
        project.forget(alias)


def _placed(alias: str, url: str) -> Iterator[Database]:
    project.place(alias, project.entry(url))
    yield Database(alias, url)
    project.forget(alias)
