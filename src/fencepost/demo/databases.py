"""How a demonstration works with a database: one function on its connection, in one transaction.

The connection is SQLAlchemy's, or with Redis a pipeline.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, ProgrammingError
from sqlalchemy.ext.asyncio import create_async_engine

from fencepost import plugins
from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import ConfigurationError, FixError, Unavailable
from fencepost.ports import DatabaseOptions

T = TypeVar("T")
Work = Callable[[Any], T]


_END_SESSIONS = sa.text(
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE client_port = ANY(:ports)"
).bindparams(sa.bindparam("ports", type_=sa.ARRAY(sa.Integer)))
_MARIADB_SESSIONS = sa.text(
    "SELECT id FROM information_schema.processlist WHERE SUBSTRING_INDEX(host, ':', -1) IN :ports"
).bindparams(sa.bindparam("ports", expanding=True))


class Database(Protocol):
    """Where orders are kept. ``ends_sessions``: ``end_sessions`` ends any."""

    ends_sessions: bool

    async def run(self, work: Work[T], *, keep: bool = True, open_s: float = 0.0) -> T:
        """Run ``work`` in a transaction of its own, which is committed, or rolled back where ``keep`` is False.

        It stays open for ``open_s`` seconds after the work.

        Raises RetryError, FixError, or the application's own errors.
        """
        ...

    async def end_sessions(self, ports: Sequence[int]) -> None:
        """End the sessions that come from these ports of this machine, from the server's side."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


def database(url: str) -> Database:
    """The database of a URL. Raises ConfigurationError where a demonstration does not know it."""
    name = plugins.name_of("database", url)
    if name not in _KINDS:
        raise ConfigurationError(
            "the demonstration does not know this database", remedy=f"it takes {' and '.join(_KINDS)} URLs"
        )
    return _KINDS[name](url)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ProgrammingError as error:
        raise FixError(f"the table of orders: {error.orig}") from error
    except DBAPIError as error:
        raise Unavailable(f"the table of orders: {error.orig}") from error
    except OSError as error:
        raise Unavailable(f"the table of orders: {error}") from error


class _Sqlite:
    """A file. Work is done in threads: one costs less than many small awaits, and there is no server to wait for."""

    ends_sessions = False

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(sa.make_url(url).set(drivername="sqlite"))
        event.listen(self._engine, "connect", _share)

    async def run(self, work: Work[T], *, keep: bool = True, open_s: float = 0.0) -> T:
        """See Database."""
        with _translated():
            return await asyncio.to_thread(self._run, work, keep, open_s)

    def _run(self, work: Work[T], keep: bool, open_s: float) -> T:
        with self._engine.connect() as connection:
            result = work(connection)
            threading.Event().wait(open_s)  # nobody sets it
            if keep:
                connection.commit()
            return result

    async def end_sessions(self, ports: Sequence[int]) -> None:
        """A file has no sessions."""

    async def close(self) -> None:
        """See Database."""
        self._engine.dispose()


def _share(connection: object, _: object) -> None:
    """Writers and the relay share the file: readers do not block writers, and who finds it locked waits."""
    cursor = connection.cursor()  # type: ignore[attr-defined]
    for pragma in ("journal_mode=WAL", "busy_timeout=30000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


class _Postgresql:
    """A server."""

    ends_sessions = True

    def __init__(self, url: str) -> None:
        from fencepost.databases.postgresql.faults import ERRORS, fault_of
        from fencepost.sql.postgresql_address import dsn_of  # it understands every URL that the relay does

        self._errors, self._fault_of = ERRORS, fault_of
        self._engine = create_async_engine("postgresql+asyncpg://", connect_args={"dsn": dsn_of(url)})

    async def run(self, work: Work[T], *, keep: bool = True, open_s: float = 0.0) -> T:
        """See Database."""
        with _translated(), self._connecting():
            async with self._engine.connect() as connection:
                result = await connection.run_sync(work)
                await SYSTEM_CLOCK.sleep(open_s)
                if keep:
                    await connection.commit()
                return result

    @contextmanager
    def _connecting(self) -> Iterator[None]:
        """What the driver itself raises while it connects, SQLAlchemy hands on as it is."""
        try:
            yield
        except self._errors as error:
            raise self._fault_of(error, "the table of orders") from error

    async def end_sessions(self, ports: Sequence[int]) -> None:
        """See Database."""
        await self.run(lambda connection: connection.execute(_END_SESSIONS, {"ports": list(ports)}).scalar_one())

    async def close(self) -> None:
        """See Database."""
        await self._engine.dispose()


class _Mariadb:
    """A server: MariaDB or MySQL."""

    ends_sessions = True

    def __init__(self, url: str) -> None:
        from fencepost.databases.mariadb.faults import ERRORS, fault_of
        from fencepost.sql.mariadb_address import connect_arguments

        self._errors, self._fault_of = ERRORS, fault_of
        arguments = connect_arguments(url) | {"autocommit": False}
        self._engine = create_async_engine("mysql+asyncmy://", connect_args=arguments)

    async def run(self, work: Work[T], *, keep: bool = True, open_s: float = 0.0) -> T:
        """See Database."""
        with self._speaking():
            async with self._engine.connect() as connection:
                result = await connection.run_sync(work)
                await SYSTEM_CLOCK.sleep(open_s)
                if keep:
                    await connection.commit()
                return result

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        """Deadlocks and lost connections pass here; what a person must change does not."""
        try:
            yield
        except DBAPIError as error:
            raise self._fault_of(error.orig or error, "the table of orders") from error
        except self._errors as error:
            raise self._fault_of(error, "the table of orders") from error

    async def end_sessions(self, ports: Sequence[int]) -> None:
        """See Database."""
        theirs = _MARIADB_SESSIONS.bindparams(ports=[str(port) for port in ports])
        for number in await self.run(lambda connection: list(connection.execute(theirs).scalars())):
            with suppress(FixError, Unavailable):  # gone already
                await self.run(partial(_kill, number=int(number)))

    async def close(self) -> None:
        """See Database."""
        await self._engine.dispose()


def _kill(connection: Any, *, number: int) -> None:
    connection.exec_driver_sql(f"KILL CONNECTION {number}")


def _dynamodb(url: str) -> Database:
    plugins.load("database", "dynamodb").source(DatabaseOptions(url=url))  # says which extra is missing
    from fencepost.demo.dynamodb_ledger import DynamoDatabase

    return DynamoDatabase(url)


def _mongodb(url: str) -> Database:
    plugins.load("database", "mongodb")  # says which extra is missing
    from fencepost.demo.mongodb_ledger import MongoDatabase

    return MongoDatabase(url)


def _redis(url: str) -> Database:
    plugins.load("database", "redis")  # says which extra is missing
    from fencepost.demo.redis_ledger import RedisDatabase

    return RedisDatabase(url)


_KINDS: dict[str, Callable[[str], Database]] = {
    "dynamodb": _dynamodb,
    "mariadb": _Mariadb,
    "mongodb": _mongodb,
    "mongodb-embedded": _mongodb,
    "mysql": _Mariadb,
    "postgresql": _Postgresql,
    "redis": _redis,
    "sqlite": _Sqlite,
}
