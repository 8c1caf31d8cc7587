"""What a SQL lease store must know of MariaDB and MySQL, through asyncmy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from fencepost.elections.sql_databases import POOLED, SWITCHED_OFF, Ring, rehearse_writes, wants_evidence
from fencepost.ports import LeaseOptions
from fencepost.sql.client import MariadbClient
from fencepost.sql.link import Wire
from fencepost.sql.mariadb_address import ISOLATION, session_settings
from fencepost.sql.sessions import NamedLocks, NoEvidence, SessionEvidence
from fencepost.sql.tables import tables

_MANY_WRITERS = "none: the server is one of a cluster (Galera), whose named locks the others do not know"

_SERVER = sa.text("SELECT CONNECTION_ID() AS session_id, DATABASE() AS name")
_CLUSTER = sa.text("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'")


class Mariadb(MariadbClient):
    """MariaDB and MySQL. Nobody announces there that a lease was released: a candidate waits for the owner's lock."""

    look_every_s = (1.05, 1.15)
    wrapped = False

    def __init__(self, options: LeaseOptions) -> None:
        super().__init__(options.url, options.timeout_s)
        self._options = options
        self._closing: asyncio.Task[None] | None = None
        self._wanted = wants_evidence(options.settings)
        self.evidence = "not known yet"
        self.table = tables(schema=options.schema, prefix=options.prefix).lease

    async def begin(self, wire: Wire, ttl_s: float) -> None:
        # A candidate that is paused while it has the row's lock must not keep the owner from renewing. MySQL cannot
        # cut it off; there the owner's renewal waits for the lock no longer than for any other answer.
        whole_s = max(1, round(ttl_s / 4))
        await wire.say(f"SET SESSION lock_wait_timeout = {whole_s} /*M! , idle_transaction_timeout = {whole_s} */")
        await wire.say("BEGIN")

    def renew_timeout_s(self, timeout_s: float, ttl_s: float) -> float:
        return min(timeout_s, ttl_s / 3)  # a connection that is cut half-open leaves time for another one

    async def opened(self, wire: Wire, ring: Ring, lost: Callable[[], None]) -> SessionEvidence:
        await wire.say(ISOLATION)
        await wire.say(session_settings(self._options.timeout_s))
        row = await wire.first(_SERVER)
        assert row is not None  # noqa: S101 - a SELECT without FROM has one row
        await wire.first(sa.select(self.table).limit(0))
        self._closing = asyncio.ensure_future(_closed(wire.driver, lost))
        if not self._wanted:
            self.evidence = SWITCHED_OFF
            return NoEvidence()
        if row.session_id != wire.driver.thread_id():
            self.evidence = POOLED
            return NoEvidence()
        nodes = await wire.first(_CLUSTER)
        if nodes is not None and int(nodes.Value) > 0:
            self.evidence = _MANY_WRITERS
            return NoEvidence()
        self.evidence = "a named lock of the owner's session"
        return NamedLocks(wire, f"{self.table.schema or row.name}.{self.table.name}")

    async def rehearse(self, wire: Wire) -> None:
        await rehearse_writes(wire, self.table, self.place, sa.false())

    async def notify(self, wire: Wire, name: str) -> None:
        return  # the owner's lock is let go, for which a candidate waits


async def _closed(connection: Any, lost: Callable[[], None]) -> None:
    """Tell when the connection has ended, from whichever side."""
    await connection._proto.wait_closed()  # asyncmy tells it nowhere else
    lost()
