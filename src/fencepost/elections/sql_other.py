"""What a SQL lease store must know of Oracle, SQL Server and CockroachDB, through SQLAlchemy: compiled, not run.

A candidate looks at the row, and a killed owner is replaced when its lease has ended: no lock is known to end with its
session, and nobody announces that a lease was released.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from fencepost.elections.sql_databases import Ring, rehearse_writes, wants_evidence
from fencepost.errors import SchemaMissing
from fencepost.ports import LeaseOptions
from fencepost.sql.client import OtherClient
from fencepost.sql.faults import fault_of
from fencepost.sql.link import Wire
from fencepost.sql.other import KINDS
from fencepost.sql.other_engine import name_in, settle_in
from fencepost.sql.sessions import NoEvidence, SessionEvidence
from fencepost.sql.tables import tables

_NOWHERE: Any = sa.literal_column("1") == sa.literal_column("0")


class OtherSql(OtherClient):
    """See ``fencepost.elections.sql_databases.Database``."""

    look_every_s = (0.4, 0.6)
    wrapped = True

    def __init__(self, options: LeaseOptions) -> None:
        wants_evidence(options.settings)
        self._options = options
        super().__init__(options.url)
        self.evidence = f"none: no lock of a session is used in {KINDS[name_in(options.url)].called}"
        self.table = tables(schema=options.schema, prefix=options.prefix).lease

    async def begin(self, wire: Wire, ttl_s: float) -> None:
        return  # the first statement begins it

    def renew_timeout_s(self, timeout_s: float, ttl_s: float) -> float:
        return min(timeout_s, ttl_s / 3)  # a connection that is cut half-open leaves time for another one

    async def opened(self, wire: Wire, ring: Ring, lost: Callable[[], None]) -> SessionEvidence:
        await settle_in(wire.connection, self._options.timeout_s)
        try:
            await wire.first(sa.select(self.table).where(_NOWHERE))
        except DBAPIError as error:
            fault = fault_of(error, self.place)
            raise fault if isinstance(fault, SchemaMissing) else error from error
        await wire.say("COMMIT")
        return NoEvidence()

    async def rehearse(self, wire: Wire) -> None:
        await rehearse_writes(wire, self.table, self.place, _NOWHERE)
        await wire.say("ROLLBACK")

    async def notify(self, wire: Wire, name: str) -> None:
        return  # candidates look at the row
