"""An empty database for each test, and what it is compared with: one that `fencepost schema apply` has filled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fencepost import plugins
from fencepost.ports import DatabaseOptions
from tests.databases.mariadb_kit import ask
from tests.migrations import catalogues


@dataclass(frozen=True)
class Empty:
    """A database without tables. ``url`` is a plain one."""

    url: str

    @property
    def name(self) -> str:
        return plugins.name_of("database", self.url)

    @property
    def sqlalchemy_url(self) -> str:
        return self.url.replace("postgresql://", "postgresql+psycopg://").replace("mysql://", "mysql+pymysql://")

    @property
    def path(self) -> Path:
        return Path(self.url.removeprefix("sqlite:///"))

    def described(self, schema: str | None = None, prefix: str = "fencepost_") -> list[str]:
        """What stands in it now."""
        if self.name == "sqlite":
            return catalogues.sqlite(self.path, prefix)
        if self.name == "mysql":
            return catalogues.mariadb(self.url, schema, prefix)
        return catalogues.postgresql(self.url, schema or "public", prefix)

    def apply(self, schema: str | None = None, prefix: str = "fencepost_", **more: Any) -> list[str]:
        """What `fencepost schema apply` does; the tables that it made."""
        options = DatabaseOptions(url=self.url, schema=schema, prefix=prefix, **more)
        return list(asyncio.run(plugins.load("database", self.name).schema(options).apply()))


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Empty:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return Empty(f"sqlite:///{tmp_path / 'application.db'}")
    url: str = request.getfixturevalue("fresh_database" if request.param == "postgresql" else "fresh_mariadb")
    return Empty(url)


Applied = Callable[..., list[str]]
TABLES = ("outbox", "entity", "parked", "lease", "lane")


@pytest.fixture
def applied(empty: Empty) -> Applied:
    """What `fencepost schema apply` makes in such a database: told and dropped again, so that the test may begin."""

    def described(schema: str | None = None, prefix: str = "fencepost_") -> list[str]:
        assert len(empty.apply(schema, prefix)) == 5
        found = empty.described(schema, prefix)
        assert len(found) > 6
        _clear(empty, schema, prefix)
        return found

    return described


def _clear(empty: Empty, schema: str | None, prefix: str) -> None:
    if empty.name == "sqlite":
        empty.path.unlink()
        return
    if empty.name == "mysql":
        for name in TABLES:
            ask(empty.url, f"DROP TABLE {prefix}{name}")
        return
    import psycopg

    with psycopg.connect(empty.url, autocommit=True) as connection:
        if schema is not None:
            connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())
            return
        for name in TABLES:
            connection.execute(f"DROP TABLE {prefix}{name}".encode())
