"""What is said to the consumer's database: its tables, its fence, its receipts, and the transaction of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.sql import Executable

from fencepost.brokers.sql.rows import Row
from fencepost.brokers.sql.statements import ARRAYS, Statements, at_once, looks, rehearsals
from fencepost.errors import FixError, SchemaMissing
from fencepost.ports import Lane, Term
from fencepost.receipt import Receipt
from fencepost.sql.faults import fault_of
from fencepost.sql.faults_mariadb import code_of
from fencepost.sql.link import Wire
from fencepost.sql.messages import MessageTables
from fencepost.sql.other import OTHERS
from fencepost.sql.statements import prepare
from fencepost.sql.tables import MARIADB

IDLE_S = 3
"""How long a server waits in the middle of a transaction for a relay that has been paused."""

_OWNER_CHARACTERS_MAX = 255
_LOCK_NUMBER = crc32(b"fencepost inbox table")

_ROW_STATES = ("22", "23", "54", "P0")
"""Classes of SQLSTATE that are about a row: data, constraints, limits, and what a trigger raises."""

_ROW_CODES = frozenset({1118, 1153, 1644})
"""MariaDB: a row or a packet that is too large, and what a trigger raises."""

_BYTES_MAX = {"postgresql": 500_000_000, "cockroachdb": 16_000_000, "sqlite": 900_000_000}
"""What a message may have: half of what a value may, and a row of SQLite's; CockroachDB recommends less."""

_BYTES_MAX_ELSEWHERE = 500_000_000


class Taken(NamedTuple):
    """A lane that was taken over: its fence, and the last receipts, oldest first."""

    fence: int
    receipts: Sequence[Receipt]


class Store:
    """The statements for one set of tables. All calls may raise what the driver raises."""

    def __init__(self, tables: MessageTables, dialect: Dialect, place: str) -> None:
        self._t, self._dialect, self.place = tables, dialect, place
        self._say = Statements(tables)
        self._at_once = at_once(tables, dialect) if dialect.name == "postgresql" else ""
        many = dialect.name in {"sqlite", *MARIADB}
        self._by_position = prepare(self._say.put_many, dialect) if many else None

    # -- the tables ----------------------------------------------------------------------------------------------------

    async def missing(self, wire: Wire) -> list[sa.Table]:
        """The tables that are not there, or not with all of their columns."""
        return [
            table
            for table, look in zip(self._t.all, looks(self._t), strict=True)
            if not await self._is_there(wire, look)
        ]

    async def make(self, wire: Wire) -> None:
        """Make what is missing. Others may do the same at this moment."""
        if self._dialect.name in MARIADB:  # each statement commits by itself there, and may be said by several
            for statement in self._t.statements(self._dialect):
                await wire.connection.exec_driver_sql(statement)
            return
        await self._begin(wire)
        if self._dialect.name == "postgresql":
            await wire.connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_NUMBER)))
        for statement in self._t.statements(self._dialect):
            await wire.connection.exec_driver_sql(statement)
        await wire.say("COMMIT")

    def lacking(self, missing: Sequence[sa.Table]) -> SchemaMissing:
        """The error that says what is missing, with the DDL."""
        names = ", ".join(table.fullname for table in missing)
        script = ";\n".join(self._t.statements(self._dialect))
        return SchemaMissing(
            f"{self.place} has no {names}, or not with all columns",
            remedy=f"set create = true in [broker], or run there:\n{script};\n",
        )

    async def rehearse(self, wire: Wire) -> None:
        """Statements that find no row tell of rights, and of a server that is closed for writers."""
        await self._begin(wire)
        for statement in rehearsals(self._t):
            await wire.connection.execute(statement)
        await wire.say("ROLLBACK")

    async def bytes_max(self, wire: Wire) -> int:
        """How many bytes a message may have."""
        if self._dialect.name not in MARIADB:
            return _BYTES_MAX.get(self._dialect.name, _BYTES_MAX_ELSEWHERE)
        return int((await wire.connection.exec_driver_sql("SELECT @@max_allowed_packet")).scalar_one())

    # -- the fence -----------------------------------------------------------------------------------------------------

    async def take(self, wire: Wire, lane: Lane, term: Term) -> Taken:
        """Raise the lane's fence, and read its receipts. A batch that is being committed is waited for."""
        try:
            return await self._take(wire, lane, term)
        except IntegrityError:  # another owner made the lane's row between the two statements: from now on it is there
            await wire.say("ROLLBACK")
            return await self._take(wire, lane, term)

    async def _take(self, wire: Wire, lane: Lane, term: Term) -> Taken:
        await self._begin(wire)
        fence = await self._raise(wire, lane, term)
        found = (await wire.connection.execute(self._say.newest, {"lane_": lane.name})).scalars().all()
        await wire.say("COMMIT")
        return Taken(fence, [self._decoded(bytes(body), lane) for body in reversed(found)])

    async def _raise(self, wire: Wire, lane: Lane, term: Term) -> int:
        of, owner = {"lane_": lane.name}, term.owner[:_OWNER_CHARACTERS_MAX]
        if await wire.count(self._say.raise_fence, **of, token_=term.token, owner_=owner) == 0:
            new = {"lane": lane.name, "fence": 1, "counter": 0, "token": term.token, "owner": owner}
            await wire.connection.execute(self._say.first, new)
        return int((await wire.connection.execute(self._say.fence, of)).scalar_one())

    def _decoded(self, body: bytes, lane: Lane) -> Receipt:
        try:
            return Receipt.decode(body)
        except ValueError as error:
            table = self._t.receipt.fullname
            raise FixError(
                f"{self.place}: a row of {table} is no receipt of lane {lane.name}: {error}",
                remedy=f"find out who else writes to {table}, and delete the row",
            ) from error

    # -- a batch -------------------------------------------------------------------------------------------------------

    async def put(self, wire: Wire, lane: Lane, receipt: Receipt, rows: Sequence[Row]) -> bool:
        """Insert a batch and its receipt in one transaction; False, and nothing, where the fence has been raised.

        After an error ``abandon`` makes the connection usable again.
        """
        if self._at_once:
            return await self._put_at_once(wire, lane, receipt, rows)
        await self._begin(wire)
        await self._insert(wire, rows)
        kept = {"lane": lane.name, "counter": receipt.counter, "fence": receipt.fence, "body": receipt.encode()}
        await wire.connection.execute(self._say.keep, kept)
        # Last, so that the lane's row is locked for one moment only: a relay that is paused here keeps nobody waiting.
        values = {"lane_": lane.name, "fence_": receipt.fence, "counter_": receipt.counter}
        passed = await wire.count(self._say.let_pass, **values) == 1
        await wire.say("COMMIT" if passed else "ROLLBACK")
        return passed

    async def _put_at_once(self, wire: Wire, lane: Lane, receipt: Receipt, rows: Sequence[Row]) -> bool:
        same = (receipt.encode(), rows[0]["source"], rows[0]["delivered_at"])
        columns = [[row[name] for row in rows] for name in ARRAYS]
        given = (lane.name, receipt.fence, receipt.counter, *same, *columns)
        passed: int = (await wire.connection.exec_driver_sql(self._at_once, given)).scalar_one()
        return passed == 1

    async def _insert(self, wire: Wire, rows: Sequence[Row]) -> None:
        if self._by_position is None:
            await wire.connection.execute(self._say.put, rows)
            return
        convert = self._by_position.row
        given = [tuple(convert({f"{name}_": value for name, value in row.items()})) for row in rows]
        await wire.connection.exec_driver_sql(self._by_position.text, given)

    async def abandon(self, wire: Wire) -> None:
        """Undo what a call had begun when it failed."""
        if not self._at_once:
            await wire.say("ROLLBACK")

    async def trim(self, wire: Wire, lane: Lane, below: int) -> None:
        """Remove the receipts before this counter."""
        await self._begin(wire)
        await wire.connection.execute(self._say.trim, {"lane_": lane.name, "counter_": below})
        await wire.say("COMMIT")

    async def refused(self, wire: Wire, rows: Sequence[Row]) -> dict[int, DBAPIError]:
        """Which of these rows the database does not take, by their place, found by halving. Nothing is kept."""
        await self._begin(wire)
        found: DBAPIError | None = None
        try:
            await self._insert(wire, rows)
        except DBAPIError as error:
            if not is_about_rows(error):
                raise
            found = error
        await wire.say("ROLLBACK")
        if found is None or len(rows) == 1:
            return {} if found is None else {0: found}
        half = len(rows) // 2
        first, second = await self.refused(wire, rows[:half]), await self.refused(wire, rows[half:])
        return first | {half + place: error for place, error in second.items()}

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _begin(self, wire: Wire) -> None:
        await wire.say("BEGIN IMMEDIATE" if self._dialect.name == "sqlite" else "BEGIN")

    async def _is_there(self, wire: Wire, look: Executable) -> bool:
        try:
            await wire.connection.execute(look)
            return True
        except DBAPIError as error:
            if not isinstance(fault_of(error, self.place), SchemaMissing):
                raise
            return False
        finally:
            if self._dialect.name in OTHERS:  # where the first statement has begun a transaction
                await wire.say("ROLLBACK")


def is_about_rows(error: DBAPIError) -> bool:
    """Whether an error is about what was to be stored, not about the connection or the server."""
    said = error.orig
    state = str(getattr(said, "sqlstate", None) or "")
    about = isinstance(error, DataError | IntegrityError) or state.startswith(_ROW_STATES)
    return about or (said is not None and code_of(said) in _ROW_CODES)
