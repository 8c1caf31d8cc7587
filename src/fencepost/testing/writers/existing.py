"""An application with an outbox table of its own making, in any SQL database: see ``fencepost.existing``.

``prepare`` makes the table. One whose rows are deleted has the form that Debezium's outbox router reads, with a column
for the order; one whose rows are marked has a state.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.asyncio import AsyncConnection

from fencepost.existing import ExistingTable
from fencepost.message import Message, Stored, microseconds
from fencepost.ports import DatabaseOptions
from fencepost.testing.harness import Parked, Transaction
from fencepost.testing.writers.sql import SqlWriter

ROUTED = ExistingTable(
    table="shop_outbox",
    position="position",
    topic="{aggregatetype}",
    key="aggregateid",
    type="{type}",
    payload="payload",
    occurred_at="created_at",
)
"""Settled by deletion."""

STATED = replace(
    ROUTED,
    state="status",
    pending="new",
    in_doubt="sending",
    settled="sent",
    parked="failed",
    settled_at="sent_at",
    attempts="tries",
    last_error="problem",
)
"""Settled by a state."""

_DRIVERS = {"postgresql": "postgresql+asyncpg", "mysql": "mysql+asyncmy", "sqlite": "sqlite+aiosqlite"}

_Position = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Moment = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql")
_Binary = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")


class ExistingWriter(SqlWriter):
    """``fencepost.testing.harness.Writer`` says what each call promises."""

    many = 1_000

    def __init__(self, options: DatabaseOptions) -> None:
        url = sa.make_url(options.url)
        kind = url.drivername.partition("+")[0].replace("mariadb", "mysql")
        super().__init__(options, url.set(drivername=_DRIVERS[kind]))
        self.concurrent = kind != "sqlite"
        self._form = options.table or ROUTED
        self._table = _table(self._form, options.schema)

    async def prepare(self) -> None:
        """Make the table."""
        async with self._engine.begin() as connection:
            await connection.execute(sa.schema.CreateTable(self._table))
            for index in self._table.indexes:
                await connection.execute(sa.schema.CreateIndex(index))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._engine.begin() as connection:
            yield _Adding(self._table, connection)

    async def parked(self) -> Sequence[Parked]:
        if self._form.parked is None:
            return await super().parked()
        t = self._table.c
        rows = await self._fetch(sa.select(self._table).where(t.status == self._form.parked).order_by(t.position))
        return [Parked(_stored(row), row.problem) for row in rows]

    async def last_error(self, message_id: str) -> str | None:
        t = self._table.c
        ((error,),) = await self._fetch(sa.select(t.problem).where(t.id == message_id))
        return None if error is None else str(error)

    async def close(self) -> None:
        async with self._engine.begin() as connection:
            await connection.execute(sa.schema.DropTable(self._table, if_exists=True))
        await super().close()


class _Adding:
    def __init__(self, table: sa.Table, connection: AsyncConnection) -> None:
        self._table, self._connection = table, connection

    async def add(self, *messages: Message) -> Sequence[Message]:
        if messages:
            await self._connection.execute(sa.insert(self._table), [_row(m) for m in messages])
        return messages


def _row(m: Message) -> dict[str, Any]:
    return {
        "id": m.id,
        "aggregatetype": m.topic,
        "aggregateid": m.key,
        "type": m.type,
        "payload": m.payload,
        "tenant": 7,
        "created_at": m.occurred_at,
    }


def _stored(row: sa.Row[Any]) -> Stored:
    moment_us = microseconds(row.created_at.replace(tzinfo=row.created_at.tzinfo or UTC))
    described = (row.position, str(row.id), row.aggregatetype, row.aggregateid, None, row.type, row.payload)
    return Stored(*described, "application/json", None, moment_us, row.tries or 0)


def _table(form: ExistingTable, schema: str | None) -> sa.Table:
    table = sa.Table(
        form.table,
        sa.MetaData(),
        sa.Column("position", _Position, sa.Identity(always=True), primary_key=True),
        sa.Column("id", sa.Uuid(as_uuid=False).with_variant(sa.String(36), "mysql", "sqlite"), nullable=False),
        sa.Column("aggregatetype", sa.String(255), nullable=False),
        sa.Column("aggregateid", sa.String(255)),
        sa.Column("type", sa.String(255), nullable=False),
        sa.Column("payload", _Binary),
        sa.Column("tenant", sa.Integer, nullable=False),
        sa.Column("created_at", _Moment, nullable=False),
        schema=schema,
        mysql_charset="utf8mb4",
        sqlite_autoincrement=True,
    )
    if form.state is not None:
        _with_state(table, form)
    return table


def _with_state(table: sa.Table, form: ExistingTable) -> None:
    for column in (
        sa.Column(form.state, sa.String(20), nullable=False, server_default=form.pending),
        sa.Column(form.settled_at, _Moment),
        sa.Column(form.attempts, sa.Integer),
        sa.Column(form.last_error, sa.Text),
    ):
        table.append_column(column)
    sa.Index(f"{table.name}_waiting", table.c.status, table.c.position)


def writer(options: DatabaseOptions) -> ExistingWriter:
    """The writer of one table."""
    return ExistingWriter(options)
