"""Places for leases: ``place`` in memory, SQLite, PostgreSQL and MariaDB; ``sql_place`` in the databases."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.leases.places import KINDS, SERVERS, SQL_KINDS, Place, fresh, local_url, make_place


def kinds(*names: str) -> list[object]:
    return [pytest.param(n, marks=getattr(pytest.mark, n) if n in SERVERS else ()) for n in names]


@pytest.fixture(params=kinds(*KINDS))
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    made = _made(request, tmp_path)
    yield made
    await made.close()


@pytest.fixture(params=kinds(*SQL_KINDS))
async def sql_place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    made = _made(request, tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def postgresql_place(postgresql_url: str) -> AsyncIterator[Place]:
    made = make_place("postgresql", postgresql_url, prefix=f"t{fresh()}_")
    yield made
    await made.close()


def _made(request: pytest.FixtureRequest, folder: Path) -> Place:
    """Each test has a table of its own, which costs less than a database."""
    kind = str(request.param)
    if kind not in SERVERS:
        return make_place(kind, local_url(kind, folder))
    return make_place(kind, str(request.getfixturevalue(f"{kind}_url")), prefix=f"t{fresh()}_")
