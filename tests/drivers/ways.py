"""Every way an application can talk to its database, behind one face: a rule is written once for all of them."""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from functools import cache
from typing import Any

import aiosqlite
import asyncmy
import asyncpg
import psycopg
import pymysql
import sqlalchemy as sa
from pymysql.cursors import DictCursor
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from fencepost.message import Message
from fencepost.outbox import AsyncOutbox, NewMessage, Outbox
from fencepost.sql.mariadb_address import connect_arguments
from fencepost.sql.tables import Tables, tables

BLOCKING = {"postgresql": "psycopg", "mysql": "pymysql", "sqlite": "psycopg"}
AWAITED = {"postgresql": "asyncpg", "mysql": "asyncmy", "sqlite": "aiosqlite"}
"""What SQLAlchemy talks through where a test does not say it, by the scheme of the URL."""


PLAIN = {"pymysql": {"ssl_disabled": True}}
"""PyMySQL reads all of the system's certificates for each connection that may use TLS."""


@dataclass(frozen=True)
class Place:
    """An outbox of a test: where its tables are. ``url`` is plain: postgresql://..., mysql://... or sqlite:///..."""

    url: str
    schema: str | None = None
    prefix: str = "fencepost_"

    @property
    def names(self) -> dict[str, Any]:
        return {"schema": self.schema, "prefix": self.prefix}

    @property
    def tables(self) -> Tables:
        return _tables(self.schema, self.prefix)

    @property
    def path(self) -> str:
        return self.url.removeprefix("sqlite:///")

    @property
    def scheme(self) -> str:
        return self.url.partition(":")[0]

    def engine(self) -> sa.Engine:
        return engine(self.url, BLOCKING[self.scheme])

    def awaited(self) -> AsyncEngine:
        return async_engine(self.url, AWAITED[self.scheme])

    def create(self) -> None:
        engine = self.engine()
        with engine.begin() as connection:
            if self.schema is not None:
                connection.execute(sa.schema.CreateSchema(self.schema))
            connection.execute(sa.text(f"CREATE TABLE {self.business} (id INTEGER PRIMARY KEY, value INTEGER)"))
            self.tables.metadata.create_all(connection)

    def clear(self) -> None:
        with self.engine().begin() as connection:
            for table in self.tables.metadata.sorted_tables:
                connection.execute(table.delete())
            connection.execute(sa.text(f"DELETE FROM {self.business}"))

    @property
    def business(self) -> str:
        """The name of a table of the application's own: id, value."""
        quote = "`" if self.scheme == "mysql" else '"'
        return f"{quote}{self.schema}{quote}.business" if self.schema else "business"

    def rows(self) -> list[Mapping[str, Any]]:
        """What waits in the outbox, by position."""
        outbox = self.tables.outbox
        with self.engine().connect() as connection:
            return [dict(row._mapping) for row in connection.execute(sa.select(outbox).order_by(outbox.c.seq))]

    def versions(self) -> dict[tuple[str, str], int]:
        """The rows of the entities."""
        with self.engine().connect() as connection:
            return {(row.topic, row.key): row.version for row in connection.execute(sa.select(self.tables.entity))}


def sqlalchemy_url(url: str, driver: str) -> str:
    """The plain URL with a driver in it; sqlite needs none but aiosqlite."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and driver == "psycopg":
        return url
    return f"{scheme}+{driver}://{rest}"


@cache
def _tables(schema: str | None, prefix: str) -> Tables:
    return tables(schema=schema, prefix=prefix)


@cache
def engine(url: str, driver: str) -> sa.Engine:
    """An engine that keeps no connection. There is one for each URL: making one takes longer than a test."""
    return sa.create_engine(sqlalchemy_url(url, driver), poolclass=NullPool, connect_args=PLAIN.get(driver, {}))


@cache
def async_engine(url: str, driver: str) -> AsyncEngine:
    """The same, awaited."""
    return create_async_engine(sqlalchemy_url(url, driver), poolclass=NullPool)


@dataclass(frozen=True)
class Way:
    """``transaction(url)`` yields what is handed to ``add``; it commits at its end, or rolls back on an error."""

    name: str
    database: str
    asynchronous: bool
    transaction: Callable[[str], AbstractAsyncContextManager[Any]]

    @property
    def session(self) -> bool:
        return "session" in self.name.lower()

    async def add(self, options: Mapping[str, Any], tx: Any, topic: str, payload: object, **rest: Any) -> Message:
        if self.asynchronous:
            return await AsyncOutbox(**options).add(tx, topic, payload, **rest)
        return Outbox(**options).add(tx, topic, payload, **rest)

    async def add_all(self, options: Mapping[str, Any], tx: Any, messages: Iterable[NewMessage]) -> list[Message]:
        if self.asynchronous:
            return await AsyncOutbox(**options).add_all(tx, messages)
        return Outbox(**options).add_all(tx, messages)


@asynccontextmanager
async def _asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def _asyncpg_pool(url: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def _psycopg(url: str) -> AsyncIterator[Any]:
    with psycopg.connect(url) as connection:
        yield connection


@asynccontextmanager
async def _psycopg_autocommit(url: str) -> AsyncIterator[Any]:
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def _psycopg_odd(url: str) -> AsyncIterator[Any]:
    """A connection whose cursors and rows are not the usual ones."""
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.RawCursor) as connection:
        yield connection


@asynccontextmanager
async def _psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@asynccontextmanager
async def _sqlite3(url: str) -> AsyncIterator[Any]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        yield connection


@asynccontextmanager
async def _sqlite3_odd(url: str) -> AsyncIterator[Any]:
    """Transactions by hand, rows as dictionaries."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        connection.row_factory = lambda cursor, row: dict(zip([c[0] for c in cursor.description], row, strict=True))
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection


@asynccontextmanager
async def _aiosqlite(url: str) -> AsyncIterator[Any]:
    async with aiosqlite.connect(url.removeprefix("sqlite:///")) as connection:
        connection.row_factory = aiosqlite.Row
        try:
            yield connection
        except BaseException:
            await connection.rollback()
            raise
        await connection.commit()


def arguments_of(url: str, **more: Any) -> dict[str, Any]:
    """The arguments of a driver of MariaDB."""
    known = connect_arguments(url)
    return {name: known[name] for name in ("host", "port", "user", "password", "database", "charset")} | more


@asynccontextmanager
async def _pymysql(url: str) -> AsyncIterator[Any]:
    with closing(pymysql.connect(**arguments_of(url, **PLAIN["pymysql"]))) as connection:
        yield connection
        connection.commit()


@asynccontextmanager
async def _pymysql_odd(url: str) -> AsyncIterator[Any]:
    """Transactions by hand, rows as dictionaries."""
    with closing(
        pymysql.connect(**arguments_of(url, autocommit=True, cursorclass=DictCursor, **PLAIN["pymysql"]))
    ) as connection:
        connection.begin()
        yield connection
        connection.commit()


@asynccontextmanager
async def _mysqlclient(url: str) -> AsyncIterator[Any]:
    import MySQLdb  # here, because it is built from its sources and not everybody has it

    with closing(MySQLdb.connect(**arguments_of(url))) as connection:
        yield connection
        connection.commit()


@asynccontextmanager
async def _asyncmy(url: str) -> AsyncIterator[Any]:
    connection = await asyncmy.connect(**arguments_of(url))
    try:
        yield connection
        await connection.commit()
    finally:
        await connection.ensure_closed()


@asynccontextmanager
async def _asyncmy_pool(url: str) -> AsyncIterator[Any]:
    """Transactions by hand, on what a pool hands out."""
    async with (
        asyncmy.create_pool(minsize=1, maxsize=1, **arguments_of(url, autocommit=True)) as pool,
        pool.acquire() as connection,
    ):
        await connection.begin()
        try:
            yield connection
        except BaseException:
            await connection.rollback()
            raise
        await connection.commit()


def _connection(driver: str) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def transaction(url: str) -> AsyncIterator[Any]:
        with engine(url, driver).begin() as connection:
            yield connection

    return transaction


def _async_connection(driver: str) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def transaction(url: str) -> AsyncIterator[Any]:
        async with async_engine(url, driver).begin() as connection:
            yield connection

    return transaction


def _session(driver: str) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def transaction(url: str) -> AsyncIterator[Any]:
        with Session(engine(url, driver)) as session, session.begin():
            yield session

    return transaction


def _async_session(driver: str) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def transaction(url: str) -> AsyncIterator[Any]:
        async with AsyncSession(async_engine(url, driver)) as session, session.begin():
            yield session

    return transaction


WAYS = [
    Way("asyncpg", "postgresql", True, _asyncpg),
    Way("asyncpg pool", "postgresql", True, _asyncpg_pool),
    Way("psycopg", "postgresql", False, _psycopg),
    Way("psycopg autocommit", "postgresql", False, _psycopg_autocommit),
    Way("psycopg odd", "postgresql", False, _psycopg_odd),
    Way("psycopg async", "postgresql", True, _psycopg_async),
    Way("Connection psycopg", "postgresql", False, _connection("psycopg")),
    Way("AsyncConnection psycopg", "postgresql", True, _async_connection("psycopg")),
    Way("AsyncConnection asyncpg", "postgresql", True, _async_connection("asyncpg")),
    Way("Session psycopg", "postgresql", False, _session("psycopg")),
    Way("AsyncSession asyncpg", "postgresql", True, _async_session("asyncpg")),
    Way("sqlite3", "sqlite", False, _sqlite3),
    Way("sqlite3 odd", "sqlite", False, _sqlite3_odd),
    Way("aiosqlite", "sqlite", True, _aiosqlite),
    Way("Connection sqlite", "sqlite", False, _connection("psycopg")),
    Way("AsyncConnection aiosqlite", "sqlite", True, _async_connection("aiosqlite")),
    Way("Session sqlite", "sqlite", False, _session("psycopg")),
    Way("AsyncSession aiosqlite", "sqlite", True, _async_session("aiosqlite")),
    Way("pymysql", "mariadb", False, _pymysql),
    Way("pymysql odd", "mariadb", False, _pymysql_odd),
    Way("asyncmy", "mariadb", True, _asyncmy),
    Way("asyncmy pool", "mariadb", True, _asyncmy_pool),
    Way("Connection pymysql", "mariadb", False, _connection("pymysql")),
    Way("AsyncConnection asyncmy", "mariadb", True, _async_connection("asyncmy")),
    Way("Session pymysql", "mariadb", False, _session("pymysql")),
    Way("AsyncSession asyncmy", "mariadb", True, _async_session("asyncmy")),
]
if importlib.util.find_spec("MySQLdb"):
    WAYS.append(Way("mysqlclient", "mariadb", False, _mysqlclient))
