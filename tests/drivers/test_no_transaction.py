"""A message outside a transaction, or handed to the wrong object, is refused with the remedy."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from typing import Any

import aiosqlite
import asyncmy
import asyncpg
import psycopg
import pymysql
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, sessionmaker

from fencepost.errors import ConfigurationError, NoTransaction
from fencepost.outbox import AsyncOutbox, NewMessage, Outbox
from tests.drivers.ways import Place, arguments_of, async_engine

REMEDY = r"has no transaction open: "


async def test_asyncpg(postgresql: Place) -> None:
    outbox = AsyncOutbox(**postgresql.names)
    connection = await asyncpg.connect(postgresql.url)
    try:
        with pytest.raises(NoTransaction, match=REMEDY + r"add inside `async with connection.transaction\(\):`"):
            await outbox.add(connection, "t", 1)
        await connection.execute("BEGIN")
        await outbox.add(connection, "t", 2)
        await connection.execute("COMMIT")
        with pytest.raises(NoTransaction):
            await outbox.add_all(connection, [NewMessage("t", 3)])
    finally:
        await connection.close()
    assert [row["payload"] for row in postgresql.rows()] == [b"2"]


async def test_asyncpg_from_a_pool(postgresql: Place) -> None:
    outbox = AsyncOutbox(**postgresql.names)
    async with asyncpg.create_pool(postgresql.url, min_size=1, max_size=1) as pool:
        with pytest.raises(ConfigurationError, match=r"asyncpg.pool.Pool: pass the connection or session"):
            await outbox.add(pool, "t", 1)
        async with pool.acquire() as connection:
            with pytest.raises(NoTransaction):
                await outbox.add(connection, "t", 1)
    assert postgresql.rows() == []


def test_psycopg(postgresql: Place) -> None:
    outbox = Outbox(**postgresql.names)
    with psycopg.connect(postgresql.url, autocommit=True) as connection:
        with pytest.raises(NoTransaction, match=REMEDY + r"add inside `with connection.transaction\(\):`"):
            outbox.add(connection, "t", 1)
        connection.execute("BEGIN")
        outbox.add(connection, "t", 2)
        connection.execute("COMMIT")
        with pytest.raises(ConfigurationError, match=r"psycopg.Cursor: pass the connection"):
            outbox.add(connection.cursor(), "t", 3)
    assert [row["payload"] for row in postgresql.rows()] == [b"2"]


async def test_psycopg_awaited(postgresql: Place) -> None:
    outbox = AsyncOutbox(**postgresql.names)
    async with await psycopg.AsyncConnection.connect(postgresql.url, autocommit=True) as connection:
        with pytest.raises(NoTransaction):
            await outbox.add(connection, "t", 1)
        async with connection.transaction():
            await outbox.add(connection, "t", 2)
    assert [row["payload"] for row in postgresql.rows()] == [b"2"]


def test_pymysql(mariadb: Place) -> None:
    outbox = Outbox(**mariadb.names)
    with closing(pymysql.connect(**arguments_of(mariadb.url, autocommit=True, ssl_disabled=True))) as connection:
        with pytest.raises(NoTransaction, match=REMEDY + r"call connection.begin\(\) first"):
            outbox.add(connection, "t", 1)
        connection.begin()
        outbox.add(connection, "t", 2)
        connection.commit()
        with pytest.raises(NoTransaction):
            outbox.add(connection, "t", 3)
        with pytest.raises(ConfigurationError, match=r"pymysql.*Cursor: pass the connection"):
            outbox.add(connection.cursor(), "t", 3)
    assert [row["payload"] for row in mariadb.rows()] == [b"2"]


async def test_asyncmy(mariadb: Place) -> None:
    outbox = AsyncOutbox(**mariadb.names)
    connection = await asyncmy.connect(**arguments_of(mariadb.url, autocommit=True))
    with pytest.raises(NoTransaction, match=REMEDY + r"await connection.begin\(\) first"):
        await outbox.add(connection, "t", 1)
    await connection.begin()
    await outbox.add(connection, "t", 2)
    await connection.commit()
    with pytest.raises(NoTransaction):
        await outbox.add(connection, "t", 3)
    await connection.ensure_closed()
    assert [row["payload"] for row in mariadb.rows()] == [b"2"]


def test_mysqlclient(mariadb: Place) -> None:
    """Its library does not tell whether a transaction was begun: a MariaDB is asked."""
    database = pytest.importorskip("MySQLdb")
    outbox = Outbox(**mariadb.names)
    with closing(database.connect(**arguments_of(mariadb.url, autocommit=True))) as connection:
        with pytest.raises(NoTransaction, match=r"as far as can be told: call connection.autocommit\(False\)"):
            outbox.add(connection, "t", 1)
        connection.begin()
        outbox.add(connection, "t", 2)
        connection.commit()
        connection.autocommit(False)
        outbox.add(connection, "t", 3)
        connection.commit()
    assert [row["payload"] for row in mariadb.rows()] == [b"2", b"3"]


@pytest.mark.parametrize("add", ["add", "add_all"])
def test_versions_by_position_are_refused_on_mariadb(mariadb: Place, add: str) -> None:
    """No lock there both ends with the transaction and leaves no row."""
    outbox = Outbox(**mariadb.names, versions="position")
    with mariadb.engine().begin() as connection:
        with pytest.raises(ConfigurationError, match=r'versions="position" on MariaDB.*use versions="counter"'):
            getattr(outbox, add)(connection, *(["t", 1] if add == "add" else [[NewMessage("t", 1)]]))
        with Session(connection) as session, pytest.raises(ConfigurationError, match="counter"):
            outbox.add(session, "t", 1)
    assert mariadb.rows() == []


def test_sqlite3(sqlite: Place) -> None:
    outbox = Outbox(**sqlite.names)
    with closing(sqlite3.connect(sqlite.path, isolation_level=None)) as connection:
        with pytest.raises(NoTransaction, match=REMEDY + "execute BEGIN IMMEDIATE first"):
            outbox.add(connection, "t", 1)
        connection.execute("BEGIN")
        outbox.add(connection, "t", 2)
        connection.commit()
        with pytest.raises(ConfigurationError, match=r"sqlite3.Cursor: pass the connection"):
            outbox.add(connection.cursor(), "t", 3)
    assert [row["payload"] for row in sqlite.rows()] == [b"2"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="before Python 3.12 sqlite3 has no such attribute to look at")
@pytest.mark.parametrize("autocommit", [True, False])
def test_sqlite3_with_the_attribute_autocommit(sqlite: Place, autocommit: bool) -> None:
    outbox = Outbox(**sqlite.names)
    option: dict[str, Any] = {"autocommit": autocommit}
    with closing(sqlite3.connect(sqlite.path, **option)) as connection:
        if autocommit:
            with pytest.raises(NoTransaction):
                outbox.add(connection, "t", 1)
            connection.execute("BEGIN")
        outbox.add(connection, "t", 2)
        connection.execute("COMMIT")
    assert [row["payload"] for row in sqlite.rows()] == [b"2"]


async def test_aiosqlite(sqlite: Place) -> None:
    outbox = AsyncOutbox(**sqlite.names)
    async with aiosqlite.connect(sqlite.path, isolation_level=None) as connection:
        with pytest.raises(NoTransaction):
            await outbox.add(connection, "t", 1)
        await connection.execute("BEGIN")
        await outbox.add(connection, "t", 2)
        await connection.commit()
        with pytest.raises(ConfigurationError, match=r"aiosqlite.*Cursor: pass the connection"):
            await outbox.add(await connection.cursor(), "t", 3)
    assert [row["payload"] for row in sqlite.rows()] == [b"2"]


def test_sqlalchemy(place: Place) -> None:
    outbox = Outbox(**place.names)
    engine = sa.create_engine(place.engine().url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection, pytest.raises(NoTransaction, match="AUTOCOMMIT"):
        outbox.add(connection, "t", 1)
    with place.engine().connect() as connection, pytest.raises(NoTransaction, match="AUTOCOMMIT"):
        outbox.add(connection.execution_options(isolation_level="AUTOCOMMIT"), "t", 2)
    with place.engine().connect() as connection:
        outbox.add(connection, "t", 3)
        assert connection.in_transaction()
        connection.commit()
    assert [row["payload"] for row in place.rows()] == [b"3"]


def test_sqlalchemy_with_sqlite_transactions_by_hand(sqlite: Place) -> None:
    """A known recipe: the driver's own transactions are turned off, BEGIN is said when SQLAlchemy begins."""
    engine = sa.create_engine(sqlite.url, poolclass=sa.NullPool)

    def connected(raw: Any, _: Any) -> None:
        raw.isolation_level = None

    sa.event.listen(engine, "connect", connected)
    with engine.begin() as connection, pytest.raises(NoTransaction):
        Outbox().add(connection, "t", 1)
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with engine.begin() as connection:
        Outbox().add(connection, "t", 2)
    assert [row["payload"] for row in sqlite.rows()] == [b"2"]


async def test_sqlalchemy_awaited(place: Place) -> None:
    outbox = AsyncOutbox(**place.names)
    engine = place.awaited()
    with pytest.raises(NoTransaction, match="not started"):
        await outbox.add(engine.connect(), "t", 1)
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(NoTransaction, match="AUTOCOMMIT"):
            await outbox.add(connection, "t", 1)
    async with AsyncSession(engine.execution_options(isolation_level="AUTOCOMMIT")) as session:
        with pytest.raises(NoTransaction, match="AUTOCOMMIT"):
            await outbox.add(session, "t", 1)
    assert place.rows() == []


async def test_the_wrong_outbox(sqlite: Place) -> None:
    blocking, awaited = Outbox(), AsyncOutbox()
    engine = async_engine(sqlite.url, "aiosqlite")
    with closing(sqlite3.connect(sqlite.path)) as connection, Session(sqlite.engine()) as session:
        for tx in (connection, session):
            with pytest.raises(ConfigurationError, match=r"AsyncOutbox cannot use .*: use Outbox"):
                await awaited.add(tx, "t", 1)
    async with (
        aiosqlite.connect(sqlite.path) as raw,
        engine.connect() as connected,
        AsyncSession(engine) as async_session,
    ):
        for other in (raw, connected, async_session):
            with pytest.raises(ConfigurationError, match=r"Outbox cannot use .*: use AsyncOutbox"):
                blocking.add(other, "t", 1)
            with pytest.raises(ConfigurationError, match="use AsyncOutbox"):
                blocking.add_all(other, [])
    assert sqlite.rows() == []


@pytest.mark.parametrize("tx", [None, "sqlite:///x.db", object(), 3])
async def test_something_else(tx: object) -> None:
    expected = (
        r"cannot be added to .*: pass the connection or session .* of MySQLdb, aiosqlite, asyncmy, asyncpg, .*sqlite3"
    )
    with pytest.raises(ConfigurationError, match=expected):
        Outbox().add(tx, "t", 1)
    with pytest.raises(ConfigurationError, match=expected):
        await AsyncOutbox().add(tx, "t", 1)


def test_engines_and_factories(sqlite: Place) -> None:
    for tx in (sqlite.engine(), sessionmaker(sqlite.engine())):
        with pytest.raises(ConfigurationError, match=r"sqlalchemy.*: pass the connection or session that has"):
            Outbox().add(tx, "t", 1)
