"""The inbox table's broker without a server: URLs, settings, rows, statements for each database, families of errors."""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import asyncmy.errors
import pytest
import sqlalchemy as sa
import sqlglot
from asyncpg import exceptions as apg
from sqlalchemy import exc
from sqlalchemy.dialects import mysql, postgresql, sqlite

from fencepost import plugins
from fencepost.brokers.sql import broker, refused
from fencepost.brokers.sql.address import SCHEMES, database_url
from fencepost.brokers.sql.rows import ROOM, Rows
from fencepost.brokers.sql.statements import Statements, at_once, looks, rehearsals
from fencepost.brokers.sql.store import is_about_rows
from fencepost.config.secrets import mask_url
from fencepost.envelope import Format, envelope
from fencepost.errors import ConfigurationError, FencepostError, ParkError
from fencepost.ports import BrokerOptions, Lane
from fencepost.sql.faults import fault_of
from fencepost.sql.messages import message_tables
from fencepost.sql.other import KINDS, dialect_of
from tests.brokers.rows import WHEN, row

GRAMMAR = {"postgresql": "postgres", "cockroachdb": "postgres", "mssql": "tsql", "mysql": "mysql"}
DIALECTS: dict[str, Any] = {
    "postgresql": postgresql.dialect(),  # type: ignore[no-untyped-call]
    "mysql": mysql.dialect(),
    "sqlite": sqlite.dialect(),
} | {name: dialect_of(name) for name in KINDS}


# ------------------------------------------------------------------------------------------------- URLs and settings


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("inbox+postgresql://u@h:5432/d?sslmode=require", "postgresql://u@h:5432/d?sslmode=require"),
        ("inbox+mysql+asyncmy://u@h/d", "mysql+asyncmy://u@h/d"),
        ("sql+sqlite:////var/inbox.db", "sqlite:////var/inbox.db"),
    ],
)
def test_a_url_is_inbox_and_that_of_the_database(url: str, expected: str) -> None:
    assert database_url(url) == expected
    assert plugins.name_of("broker", url) == "sql"


@pytest.mark.parametrize(
    "url", ["inbox://u:hunter2@h/d", "inbox+postgresq://u:hunter2@h/d", "postgresql://u:hunter2@h/d", "inbox+redis://h"]
)
def test_a_url_that_names_no_database_is_told_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"inbox\+postgresql://") as told:
        database_url(url)
    assert "hunter2" not in str(told.value)


def test_the_nearest_database_is_named() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'postgresql'"):
        database_url("inbox+postgresq://h/d")


def test_passwords_are_not_shown() -> None:
    assert mask_url("inbox+postgresql://u:hunter2@h/d") == "inbox+postgresql://u:***@h/d"


def test_everything_that_is_wrong_is_told_at_once() -> None:
    wrong = refused("inbox+postgresql://u@h:port/d", {"prefx": "a", "schema": "a b", "prefix": 7})
    assert list(wrong) == ["url", "prefx", "schema", "prefix"]
    assert "did you mean 'prefix'" in wrong["prefx"].remedy
    assert not refused("inbox+sqlite:///inbox.db", {"prefix": "shop_"})


@pytest.mark.parametrize("setting", [{"prefx": "a_"}, {"prefix": "a-b"}, {"schema": "x" * 41}])
def test_a_setting_that_cannot_be_meant(setting: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        broker(BrokerOptions(url="inbox+sqlite:///inbox.db", source="/shop", settings=setting))


def test_what_sqlite_has_not_and_what_is_too_long() -> None:
    with pytest.raises(ConfigurationError, match="SQLite has no schemas"):
        broker(BrokerOptions(url="inbox+sqlite:///inbox.db", source="/shop", settings={"schema": "s"}))
    with pytest.raises(ConfigurationError, match="too long"):
        broker(BrokerOptions(url="inbox+sqlite:///inbox.db", source="/" * 256))


# -------------------------------------------------------------------------------------------------------------- rows


def rows_of(dialect: str, bytes_max: int = 1_000_000) -> Rows:
    made = Rows(envelope(Format.CLOUDEVENTS_BINARY, "/shop", "ce_"), "/shop", dialect, "there")
    made.bytes_max = bytes_max
    return made


@pytest.mark.parametrize(
    ("dialect", "fields", "says"),
    [
        ("sqlite", {"topic": "t" * 250}, "its topic has 250 characters"),
        ("sqlite", {"key": "k" * 256}, "its key has 256 characters"),
        ("sqlite", {"content_type": "c" * 256}, "its content type has 256 characters"),
        ("sqlite", {"key": "lone \ud800"}, "cannot be written as UTF-8"),
        ("sqlite", {"version": 2**63}, "more than 64 bits"),
        ("sqlite", {"occurred_us": 10**19}, "which is no date"),
        ("postgresql", {"key": "zero \0"}, "U\\+0000"),
        ("cockroachdb", {"topic": "zero \0"}, "U\\+0000"),
        ("oracle", {"payload": b""}, "Oracle keeps an empty value as none"),
        ("mysql", {"payload": b"x" * (1_000_000 - ROOM)}, "it takes 1,000,0"),
        ("mysql", {"payload": b"'" * 500_000}, "of which 1,000,000 are possible"),
        ("sqlite", {"headers": {"h": "v" * 1_000_000}}, "of which 1,000,000 are possible"),
    ],
)
def test_what_cannot_be_a_row(dialect: str, fields: dict[str, Any], says: str) -> None:
    """E1, E4: found before anything is sent, and parked at once."""
    good, bad = row(1), row(2, **fields)
    made, failed = rows_of(dialect).made([good, bad], Lane("orders"), WHEN)
    assert [each["id"] for each in made] == [good.id]
    (failure,) = failed
    assert failure.message is bad
    assert isinstance(failure.error, ParkError)
    assert failure.error.at_once
    assert failure.error.remedy
    assert re.search(says, failure.error.what)


def test_what_another_database_can_hold() -> None:
    odd = [row(1, key="zero \0"), row(2, payload=b""), row(3, payload=b"'" * 500_000)]
    assert not rows_of("sqlite").made(odd, Lane("orders"), WHEN)[1]


# --------------------------------------------------------------------------------------------------------- statements


def text_of(statement: Any, name: str, into: sa.Table | None = None) -> str:
    keys = None if into is None else [column.name for column in into.columns if column.name != "seq"]
    return str(statement.compile(dialect=DIALECTS[name], column_keys=keys))


def statements(name: str) -> list[str]:
    tables = message_tables(schema="s")
    say = Statements(tables)
    columns = {"put": tables.messages, "keep": tables.receipt, "first": tables.lane}
    texts = [text_of(each, name, columns.get(what)) for what, each in vars(say).items()]
    texts += [text_of(each, name) for each in (*looks(tables), *rehearsals(tables))]
    return [*texts, at_once(tables, DIALECTS[name])] if name == "postgresql" else texts


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_another_reader_of_sql_takes_every_statement(name: str) -> None:
    """For Oracle, SQL Server and CockroachDB nothing more is known: no server of theirs is there."""
    texts = statements(name)
    assert len(texts) >= 8 + 3 + 5
    for text in texts:
        plain = re.sub(r"__\[\w+\]|%s|%\(\w+\)s|:\w+_?\b(?<!::)|\$\d+(?!:)", "1", text.replace("::", " :: "))
        (tree,) = sqlglot.parse(plain, dialect=GRAMMAR.get(name, name), error_level=sqlglot.ErrorLevel.RAISE)
        assert tree is not None
        assert not list(tree.find_all(sqlglot.exp.Command)), text


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_every_table_is_made_with_all_of_its_columns(name: str) -> None:
    tables = message_tables(prefix="shop_")
    script = "\n".join(tables.statements(DIALECTS[name]))
    for table in tables.all:
        made = script[re.search(rf"CREATE TABLE (IF NOT EXISTS )?{table.name} ", script).start() :]  # type: ignore[union-attr]
        assert all(re.search(rf"^\W*{column.name}\W", made, re.MULTILINE) for column in table.columns)


# ------------------------------------------------------------------------------------------------------------- errors

STATES = {
    state: cls
    for cls in vars(apg).values()
    if isinstance(cls, type) and issubclass(cls, apg.PostgresError) and (state := getattr(cls, "sqlstate", None))
}


@pytest.mark.parametrize("state", sorted(STATES))
def test_every_error_of_postgresql_has_a_family_or_is_about_a_row(state: str) -> None:
    """E1: of those that are about a row, the message is looked for; nothing else may park one."""
    error = exc.DBAPIError("INSERT", {}, STATES[state]("said"))
    assert is_about_rows(error) is (state[:2] in {"22", "23", "54", "P0"})
    assert isinstance(fault_of(error, "there"), FencepostError)


@pytest.mark.parametrize(
    ("error", "about_rows"),
    [
        (exc.DataError("INSERT", {}, asyncmy.errors.DataError(1406, "Data too long")), True),
        (exc.IntegrityError("INSERT", {}, asyncmy.errors.IntegrityError(4025, "CONSTRAINT `c` failed")), True),
        (exc.OperationalError("INSERT", {}, asyncmy.errors.OperationalError(1644, "SIGNAL")), True),
        (exc.OperationalError("INSERT", {}, asyncmy.errors.OperationalError(1213, "Deadlock")), False),
        (exc.OperationalError("INSERT", {}, asyncmy.errors.OperationalError(2013, "Lost connection")), False),
        (exc.OperationalError("INSERT", {}, asyncmy.errors.OperationalError(1114, "The table is full")), False),
        (exc.ProgrammingError("INSERT", {}, asyncmy.errors.ProgrammingError(1146, "no table")), False),
        (exc.IntegrityError("INSERT", {}, sqlite3.IntegrityError("CHECK constraint failed")), True),
        (exc.DataError("INSERT", {}, sqlite3.DataError("string or blob too big")), True),
        (exc.OperationalError("INSERT", {}, sqlite3.OperationalError("database is locked")), False),
        (exc.OperationalError("INSERT", {}, sqlite3.OperationalError("disk I/O error")), False),
        (exc.InterfaceError("INSERT", {}, apg.InterfaceError("connection is closed")), False),
    ],
)
def test_errors_of_the_other_libraries(error: exc.DBAPIError, about_rows: bool) -> None:
    assert is_about_rows(error) is about_rows
    assert isinstance(fault_of(error, "there"), FencepostError)


def test_every_database_has_a_client() -> None:
    assert set(SCHEMES) == {"mariadb", "mysql", "postgres", "postgresql", "sqlite", *KINDS}
