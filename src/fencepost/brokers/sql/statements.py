"""The statements for an inbox table and its lanes: of SQLAlchemy's, and one that PostgreSQL alone understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import Executable

from fencepost.receipt import RECEIPTS_KEPT
from fencepost.sql.messages import MessageTables

NOWHERE: Any = sa.literal_column("1") == sa.literal_column("0")
"""A condition that no row meets."""

ARRAYS: Mapping[str, str] = {
    "id": "text",
    "topic": "text",
    "key": "text",
    "version": "bigint",
    "type": "text",
    "payload": "bytea",
    "content_type": "text",
    "headers": "text",
    "occurred_at": "timestamptz",
    "possible_repeat": "boolean",
}
"""The columns that PostgreSQL is given as arrays, and of what."""


class Statements:
    """``put``, ``keep`` and ``first`` are given columns by name, the others the parameters that are named here."""

    def __init__(self, t: MessageTables) -> None:
        lane, receipt = t.lane, t.receipt
        of: Any = sa.bindparam("lane_")
        self.put = sa.insert(t.messages).inline()  # nobody asks for the seq that was drawn
        self.put_many = _by_position(t.messages)
        self.keep = sa.insert(receipt)
        mine = (lane.c.lane == of, lane.c.fence == sa.bindparam("fence_"))
        self.let_pass = sa.update(lane).where(*mine).values(counter=sa.bindparam("counter_"))
        given: dict[str, Any] = {"token": sa.bindparam("token_"), "owner": sa.bindparam("owner_")}
        self.raise_fence = sa.update(lane).where(lane.c.lane == of).values(fence=lane.c.fence + 1, **given)
        self.first = sa.insert(lane)
        self.fence = sa.select(lane.c.fence).where(lane.c.lane == of)
        latest = sa.select(receipt.c.body).where(receipt.c.lane == of)
        self.newest = latest.order_by(receipt.c.counter.desc(), receipt.c.fence.desc()).limit(RECEIPTS_KEPT)
        self.trim = sa.delete(receipt).where(receipt.c.lane == of, receipt.c.counter < sa.bindparam("counter_"))


def _by_position(messages: sa.Table) -> sa.Insert:
    """The same as ``put`` for drivers that are handed many rows as they are: SQLAlchemy prepares it once."""
    names = [column.name for column in messages.columns if column.name != "seq"]
    return sa.insert(messages).values({name: sa.bindparam(f"{name}_") for name in names}).inline()


def looks(t: MessageTables) -> list[Executable]:
    """Queries of no row, one for each table: they tell whether it is there with all of its columns."""
    return [sa.select(table).where(NOWHERE) for table in t.all]


def rehearsals(t: MessageTables) -> list[Executable]:
    """Changes of no row: they tell whether this user may do them."""
    made: list[Executable] = []
    for table in t.all:
        names = [column.name for column in table.c if column.name != "seq"]
        nothing = sa.select(*[table.c[name] for name in names]).where(NOWHERE)
        made.append(sa.insert(table).from_select(names, nothing).inline())
    made.append(sa.update(t.lane).values(fence=t.lane.c.fence).where(NOWHERE))
    made.append(sa.delete(t.receipt).where(NOWHERE))
    return made


def at_once(t: MessageTables, dialect: Dialect) -> str:
    """PostgreSQL: the transaction of a batch as one statement, in whose middle no relay can be paused.

    It takes lane, fence, counter, receipt, source and time, then the columns of ARRAYS. It returns whether the fence
    let it pass.
    """
    quote, table = dialect.identifier_preparer.quote, dialect.identifier_preparer.format_table
    names = ", ".join(quote(name) for name in ARRAYS)
    arrays = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(ARRAYS.values(), start=7))
    return f"""
        WITH mine AS (
            UPDATE {table(t.lane)} SET counter = $3 WHERE lane = $1 AND fence = $2 RETURNING lane
        ), kept AS (
            INSERT INTO {table(t.receipt)} (lane, fence, counter, body) SELECT lane, $2, $3, $4 FROM mine
        ), put AS (
            INSERT INTO {table(t.messages)} (lane, source, delivered_at, {names})
            SELECT lane, $5, $6, {names}
            FROM mine, unnest({arrays}) WITH ORDINALITY AS given ({names}, place) ORDER BY place
        )
        SELECT count(*) FROM mine
    """  # noqa: S608 - names of our own
