"""The SQL lease store, stepped: each of its statements is a step of the party that calls it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa

from fencepost.elections.sql import SqlLeaseStore
from fencepost.elections.sql_databases import Postgresql, Ring, Sqlite
from fencepost.elections.sql_mariadb import Mariadb
from fencepost.ports import LeaseOptions, Term
from fencepost.sql.link import Wire
from fencepost.sql.sessions import SessionEvidence
from fencepost.testing.interleave import Side, Taken, step
from fencepost.testing.places import fresh
from tests.interleavings.place import SIDES, Place

LONG_S = 60.0


class _SteppedConnection:
    """What is said to SQLAlchemy's connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def execute(self, statement: Any, values: Any) -> Any:
        if _name(statement) == "pg_notify":  # nothing that the other party could see
            return await self._connection.execute(statement, values)
        return await step(_name(statement), lambda: self._connection.execute(statement, values))

    async def exec_driver_sql(self, command: str) -> Any:
        if command == "BEGIN" or command.startswith("SET"):
            return await self._connection.exec_driver_sql(command)
        return await step(command.lower(), lambda: self._connection.exec_driver_sql(command))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class _SteppedDriver:
    """What is said to the driver's: BEGIN, COMMIT, ROLLBACK. A BEGIN that takes no lock is no step."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    async def execute(self, command: str) -> Any:
        if command.startswith("BEGIN;"):
            return await self._driver.execute(command)
        return await step(command.partition(" ")[0].lower(), lambda: self._driver.execute(command))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)


def _name(statement: Any) -> str:
    if isinstance(statement, sa.Select):
        columns = list(statement.selected_columns)
        if len(columns) == 1:
            return str(columns[0].name)
        return "look" if statement._for_update_arg is None else "lock"
    return "seed" if isinstance(statement, sa.Insert) else "update"


def _in_steps(wire: Wire) -> None:
    wire.connection = cast("Any", _SteppedConnection(wire.connection))
    wire.driver = _SteppedDriver(wire.driver)


class SteppedPostgresql(Postgresql):
    """PostgreSQL, every statement a step."""

    async def opened(self, wire: Wire, ring: Ring, lost: Callable[[], None]) -> SessionEvidence:
        evidence = await super().opened(wire, ring, lost)
        _in_steps(wire)
        return evidence


class SteppedMariadb(Mariadb):
    """MariaDB, every statement a step."""

    async def opened(self, wire: Wire, ring: Ring, lost: Callable[[], None]) -> SessionEvidence:
        evidence = await super().opened(wire, ring, lost)
        _in_steps(wire)
        return evidence


class SteppedSqlite(Sqlite):
    """SQLite, every statement a step."""

    connection: Any = None

    async def opened(self, wire: Wire, ring: Ring, lost: Callable[[], None]) -> SessionEvidence:
        evidence = await super().opened(wire, ring, lost)
        self.connection = wire.driver
        _in_steps(wire)
        return evidence


STEPPED: Mapping[str, type[SteppedPostgresql | SteppedMariadb | SteppedSqlite]] = {
    "mysql": SteppedMariadb,
    "postgresql": SteppedPostgresql,
    "sqlite": SteppedSqlite,
}
"""By the scheme of the URL."""


@dataclass
class Race:
    """One play: two processes, and a lease with a name of its own. ``term`` is the one that was there before."""

    name: str
    stores: Mapping[Side, SqlLeaseStore]
    term: Term | None


class Candidates:
    """Two processes' stores in one place. Names are new in each play, so that connections can stay."""

    def __init__(self, place: Place, stores: Mapping[Side, SqlLeaseStore], databases: Mapping[Side, Any]) -> None:
        self.place, self.stores, self._databases = place, stores, databases

    @asynccontextmanager
    async def new(self) -> AsyncIterator[Race]:
        """A lease that nobody has had yet."""
        async with self.place.fresh():
            yield Race(fresh(), self.stores, None)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Race]:
        """A lease that the left one has."""
        async with self.new() as race:
            race.term = await self.stores["L"].acquire(race.name, "L", LONG_S)
            yield race

    @asynccontextmanager
    async def expired(self) -> AsyncIterator[Race]:
        """A lease that the left one has had for too long."""
        async with self.held() as race:
            lease = f"{self.place.options.prefix}lease"
            await self.place.right.connection.execute(
                f"UPDATE {lease} SET expires_at = acquired_at WHERE name = '{race.name}'"
            )
            yield race

    async def waits(self, taken: Taken) -> bool:
        """Whether a step waits for a lock."""
        other = self._databases["R" if taken.side == "L" else "L"]
        if isinstance(other, SteppedSqlite):
            return taken.name != "look" and bool(other.connection.in_transaction) and await self.place.bystand()
        return await self.place.waits(taken)


@asynccontextmanager
async def candidates(place: Place, *, evidence: bool = True) -> AsyncIterator[Candidates]:
    """Two stores, open. ``evidence``: whether a session shows others that it lives."""
    settings = {"session_evidence": "auto" if evidence else "off"}
    options = {
        side: LeaseOptions(url=place.url_of(side), prefix=place.options.prefix, timeout_s=15.0, settings=settings)
        for side in SIDES
    }
    kind = STEPPED[place.options.url.partition(":")[0]]
    databases = {side: kind(options[side]) for side in SIDES}
    stores = {side: SqlLeaseStore(databases[side], options[side]) for side in SIDES}
    try:
        for store in stores.values():
            await store.open()
        yield Candidates(place, stores, databases)
    finally:
        for store in stores.values():
            await store.close()
