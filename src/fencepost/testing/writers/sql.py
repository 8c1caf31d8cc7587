"""What the applications of all SQL databases share: adding through ``AsyncOutbox``, a look into the tables, removal."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from fencepost.message import Message, Stored, microseconds
from fencepost.outbox import AsyncOutbox
from fencepost.ports import DatabaseOptions
from fencepost.sql.tables import tables
from fencepost.testing.harness import Parked, new_message


class OutboxTransaction:
    """A transaction that is open on ``connection``, of any driver."""

    def __init__(self, outbox: AsyncOutbox, connection: object) -> None:
        self._outbox, self._connection = outbox, connection

    async def add(self, *messages: Message) -> Sequence[Message]:
        """Add the messages in this order: together where they have no keys, by which a writer may sort."""
        new = [new_message(message) for message in messages]
        if any(message.key is not None for message in messages):
            return [one for n in new for one in await self._outbox.add_all(self._connection, [n])]
        return await self._outbox.add_all(self._connection, new)


class SqlWriter:
    """``fencepost.testing.harness.Writer``, but for what differs between databases."""

    def __init__(self, options: DatabaseOptions, engine_url: sa.URL) -> None:
        self.outbox = AsyncOutbox(schema=options.schema, prefix=options.prefix, max_bytes=None)
        self._tables = tables(schema=options.schema, prefix=options.prefix)
        self._engine = create_async_engine(engine_url, poolclass=NullPool)

    async def parked(self) -> Sequence[Parked]:
        t = self._tables.parked.c
        columns = (t.seq, t.id, t.topic, t.key, t.version, t.type, t.payload, t.content_type, t.headers, t.occurred_at)
        return [
            Parked(_stored(row[:-1]), row.reason or "")
            for row in await self._fetch(sa.select(*columns, t.attempts, t.reason).order_by(t.parked_at))
        ]

    async def last_error(self, message_id: str) -> str | None:
        t = self._tables.outbox.c
        ((error,),) = await self._fetch(sa.select(t.last_error).where(t.id == message_id))
        return None if error is None else str(error)

    async def connections(self) -> Collection[str] | None:
        return None

    async def cut(self, connections: Collection[str]) -> None:
        """Nothing can be cut."""

    async def close(self) -> None:
        async with self._engine.begin() as connection:
            for table in self._tables.metadata.tables.values():
                await connection.execute(sa.schema.DropTable(table, if_exists=True))
        await self._engine.dispose()

    async def _fetch(self, statement: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        async with self._engine.connect() as connection:
            rows: Sequence[sa.Row[Any]] = (await connection.execute(statement)).all()
            return rows


def _stored(row: Sequence[Any]) -> Stored:
    position, id_, topic, key, version, kind, payload, content_type, headers, occurred_at, attempts = row
    headers = json.loads(headers) if isinstance(headers, str) else headers
    moment_us = microseconds(occurred_at)
    return Stored(position, id_, topic, key, version, kind, payload, content_type, headers, moment_us, attempts)
