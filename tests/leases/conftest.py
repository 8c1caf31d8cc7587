"""Places for leases: ``place`` in memory, in SQLite and in PostgreSQL; ``sql_place`` in the two databases."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.leases.places import KINDS, SQL_KINDS, Place, fresh, local_url, make_place


def kinds(*names: str) -> list[object]:
    return [pytest.param(n, marks=pytest.mark.postgresql if n == "postgresql" else ()) for n in names]


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
    if request.param != "postgresql":
        return make_place(request.param, local_url(request.param, folder))
    return make_place("postgresql", str(request.getfixturevalue("postgresql_url")), prefix=f"t{fresh()}_")
