"""States that a database takes for the same: refused where they are named, warned about where others may write them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from fencepost import plugins
from fencepost.errors import ConfigurationError
from fencepost.existing import ExistingTable
from fencepost.ports import DatabaseOptions
from fencepost.sql.existing.alike import pairs
from tests.databases.mariadb_kit import ask

TABLE = ExistingTable(
    table="shop_outbox", position="seq", topic="orders", payload="payload", state="state", pending="new", settled="done"
)
ALIKE = replace(TABLE, settled="New")
ODD = replace(TABLE, pending="it's\\new", settled="it's done")


async def advice(url: str, table: ExistingTable) -> Sequence[str]:
    """What is warned about the states. Raises where they cannot be used."""
    plugin = plugins.load("database", plugins.name_of("database", url))
    options = DatabaseOptions(url=url, table=table, settle="mark")
    await plugin.schema(options).apply()
    await (await plugin.source(options).connect()).close()
    return [line for line in await plugin.source(options).advice() if "differ in case" in line]


async def folds(url: str, remedy: str) -> None:
    """The states of this table are compared without their case."""
    with pytest.raises(ConfigurationError, match=r"takes 'new' and 'New' for the same, .* pending and settled"):
        await advice(url, ALIKE)
    for table in (TABLE, ODD):
        (line,) = await advice(url, table)
        assert f"rows in {str(table.pending).swapcase()!r} are published as those in {table.pending!r}" in line
        assert remedy in line


async def tells(url: str) -> None:
    """They are compared exactly."""
    for table in (TABLE, ALIKE, ODD):
        assert await advice(url, table) == []


def test_spaces_at_the_end_are_no_difference() -> None:
    assert pairs([("new", "new"), ("new  ", "NEW"), ("a", "a ")]) == {("new", "NEW")}


async def test_in_sqlite(tmp_path: Path) -> None:
    for number, kind in enumerate(("TEXT", "TEXT COLLATE NOCASE")):
        path = tmp_path / f"{number}.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                f"CREATE TABLE shop_outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, state {kind}, payload TEXT)"
            )
        url = f"sqlite:///{path}"
        await (folds(url, "without COLLATE NOCASE") if "NOCASE" in kind else tells(url))


async def test_in_mariadb(fresh_mariadb: str) -> None:
    ask(
        fresh_mariadb,
        "CREATE TABLE shop_outbox (seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, id CHAR(36) NOT NULL,"
        " payload TEXT, state VARCHAR(20) CHARACTER SET latin1 NOT NULL)",
    )
    exact = "ALTER TABLE shop_outbox MODIFY state varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
    await folds(fresh_mariadb, exact)
    ask(fresh_mariadb, exact)
    await tells(fresh_mariadb)
    ask(fresh_mariadb, "ALTER TABLE shop_outbox MODIFY state ENUM('new', 'done') COLLATE utf8mb4_general_ci")
    assert await advice(fresh_mariadb, TABLE) == [], "there is one way only to write a state"


@pytest.mark.parametrize("kind", ["text COLLATE without_case", "varchar(20)", "char(20)"])
async def test_in_postgresql(kind: str, fresh_database: str) -> None:
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(
            "CREATE COLLATION without_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        connection.execute(
            "CREATE TABLE shop_outbox (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id uuid NOT NULL,"
            f" payload text, state {kind})".encode()
        )
    await (folds(fresh_database, 'TYPE text COLLATE "C"') if "without" in kind else tells(fresh_database))
