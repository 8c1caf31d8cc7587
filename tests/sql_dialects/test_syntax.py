"""Another reader of SQL takes every statement for one of its database, and finds in it what we meant to say."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from tests.sql_dialects.texts import GRAMMAR, NAMES, everything

_WRITTEN = {
    "SELECT": exp.Select,
    "INSERT": exp.Insert,
    "UPDATE": exp.Update,
    "DELETE": exp.Delete,
    "CREATE": exp.Create,
}
TABLES = {f"fencepost_{name}" for name in ("outbox", "entity", "parked", "lease", "lane")}
OF_SERVERS = {"dual", "identity_columns", "databases", "nls_database_parameters", "numbers", ""}


def parsed(text: str, name: str) -> exp.Expression:
    """One statement. sqlglot takes what it does not know for a Command, and knows no key that is not clustered."""
    plain = text.replace("PRIMARY KEY NONCLUSTERED", "PRIMARY KEY")
    (tree,) = sqlglot.parse(plain, dialect=GRAMMAR[name], error_level=sqlglot.ErrorLevel.RAISE)
    assert isinstance(tree, exp.Expression)
    return tree


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_is_read(name: str) -> None:
    for what, text in everything(name).items():
        tree = parsed(text, name)
        assert isinstance(tree, _WRITTEN[text.split()[0]]), what
        assert not list(tree.find_all(exp.Command)), what


@pytest.mark.parametrize("name", NAMES)
def test_every_table_that_is_named_is_known(name: str) -> None:
    for what, text in everything(name).items():
        if not text.startswith("CREATE"):
            named = {table.name.lower() for table in parsed(text, name).find_all(exp.Table)}
            assert named <= TABLES | OF_SERVERS, what


@pytest.mark.parametrize("name", NAMES)
def test_every_change_is_of_some_rows(name: str) -> None:
    changes = [
        tree for text in everything(name).values() if isinstance(tree := parsed(text, name), exp.Update | exp.Delete)
    ]
    assert len(changes) >= 8
    assert all(tree.args.get("where") is not None for tree in changes)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("mssql", "SELECT seq FROM fencepost_outbox ORDER BY seq OFFSET 0 ROWS FETCH FIRST 3 OF THEM"),
        ("oracle", "SELECT seq FROM fencepost_outbox WHERE FOR UPDATE"),
        ("cockroachdb", "INSERT INTO fencepost_entity (topic VALUES ('a')"),
    ],
)
def test_what_is_no_sql_is_noticed(name: str, wrong: str) -> None:
    with pytest.raises(sqlglot.ParseError):
        parsed(wrong, name)
