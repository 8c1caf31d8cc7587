"""The tables keep what every migration of the past relies on: a change of them is a new revision.

Before the first release there is no past: ``python -m tests.migrations.test_revisions`` writes revision 1 anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import Dialect

from fencepost.errors import ConfigurationError
from fencepost.sql import revisions
from fencepost.sql import schema as ddl
from fencepost.sql.tables import tables

HERE = Path(__file__).parent
DIALECTS: dict[str, Dialect] = {
    "mariadb": mysql.dialect(),
    "postgresql": postgresql.dialect(),  # type: ignore[no-untyped-call]
    "sqlite": sqlite.dialect(),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_revision_1_is_what_it_was(name: str) -> None:
    """Where this fails, somebody changed ``tables`` without a revision: see fencepost.sql.revisions."""
    assert first(name) == (HERE / f"revision_1_{name}.sql").read_text()


def first(name: str) -> str:
    """Revision 1 as it is made now."""
    return "\n\n".join(revisions.created(1, tables(), DIALECTS[name])) + "\n"


@pytest.mark.parametrize("name", DIALECTS)
def test_all_revisions_make_what_the_metadata_says(name: str) -> None:
    t = tables(schema="a schema", prefix="x_")
    made = revisions.created(revisions.LATEST, t, DIALECTS[name])
    assert made == list(ddl.statements(t, DIALECTS[name]))
    assert len(made) > 5


def test_they_are_numbered_from_one() -> None:
    assert [each.number for each in revisions.REVISIONS] == list(range(1, revisions.LATEST + 1))
    assert all(each.what for each in revisions.REVISIONS)


@pytest.mark.parametrize("number", [0, revisions.LATEST + 1, -1])
def test_one_that_is_not_known(number: int) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"no revision {number} .*: this release knows 1 to {revisions.LATEST}"
    ):
        revisions.created(number, tables(), DIALECTS["sqlite"])


if __name__ == "__main__":
    for each in DIALECTS:
        (HERE / f"revision_1_{each}.sql").write_text(first(each))
