"""What the libraries of Oracle and SQL Server say, as one of the four families; neither need be installed for it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sqlalchemy.exc import DBAPIError

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    Contention,
    FencepostError,
    FixError,
    SchemaMissing,
    Unavailable,
)
from fencepost.sql.faults import fault_of


def said(library: str, *arguments: object) -> DBAPIError:
    """An error of a library, as SQLAlchemy hands it on."""
    kind = type("DatabaseError", (Exception,), {"__module__": library})
    return DBAPIError("SELECT 1", {}, kind(*arguments))


def oracle(code: int, text: str = "") -> DBAPIError:
    text = text or f"ORA-{code:05}: something"
    return said("oracledb.exceptions", type("_Error", (SimpleNamespace,), {"__str__": lambda _: text})(code=code))


def odbc(state: str, number: int) -> DBAPIError:
    return said(
        "pyodbc", state, f"[{state}] [Microsoft][ODBC Driver 18 for SQL Server] something ({number}) (SQLExecute)"
    )


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (oracle(942), SchemaMissing),
        (oracle(904), SchemaMissing),
        (oracle(1017), AccessDenied),
        (oracle(1031), AccessDenied),
        (oracle(60), Contention),
        (oracle(8177), Contention),
        (oracle(1), FixError),
        (oracle(3113), ConnectionLost),
        (oracle(0, "DPY-4011: the database or network closed the connection"), ConnectionLost),
        (oracle(0, "DPY-6005: cannot connect to database"), Unavailable),
        (oracle(16000), Unavailable),
        (oracle(600), Unavailable),
        (odbc("42S02", 208), SchemaMissing),
        (odbc("42S22", 207), SchemaMissing),
        (odbc("42000", 229), AccessDenied),
        (odbc("28000", 18456), AccessDenied),
        (odbc("40001", 1205), Contention),
        (odbc("42000", 3960), Contention),
        (odbc("HYT00", 1222), Contention),
        (odbc("23000", 2627), FixError),
        (odbc("08S01", 0), ConnectionLost),
        (odbc("08001", 53), Unavailable),
        (odbc("42000", 4060), ConfigurationError),
        (odbc("42000", 9002), Unavailable),
        (odbc("HY000", 99), Unavailable),
    ],
)
def test_families(error: DBAPIError, family: type[FencepostError]) -> None:
    found = fault_of(error, "the shop")
    assert type(found) is family
    assert found.what.startswith("the shop: ")


def test_remedies() -> None:
    remedies = {
        type(f): f.remedy for e in (oracle(942), oracle(1017), odbc("08001", 53)) if (f := fault_of(e, "the shop"))
    }
    assert "schema apply" in remedies[SchemaMissing]
    assert "docs/other-sql.md" in remedies[AccessDenied]
    assert "check host and port" in remedies[Unavailable]


def test_errors_of_other_libraries_are_none_of_theirs() -> None:
    found = fault_of(said("psycopg.errors", "ORA-00942 (208)"), "the shop")
    assert type(found) is ConnectionLost
