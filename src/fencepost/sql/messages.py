"""The inbox table: where a relay puts messages for a consumer in another database, and what fences the relays there.

Three tables: the messages, which the consumer reads and removes; for each lane its fence, the number that a take-over
raises; and the lanes' last receipts.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from fencepost.message import KEY_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX, TYPE_CHARACTERS_MAX
from fencepost.sql import schema as ddl
from fencepost.sql.tables import (
    ON_MARIADB,
    QUEUE,
    UPDATED,
    Bytes,
    Flag,
    HeadersText,
    Payload,
    Seq,
    UtcDateTime,
    exact,
    named,
    store_as,
)

ID_CHARACTERS_MAX = 255
"""Ids of tables that are not ours need not be UUIDs."""

SOURCE_CHARACTERS_MAX = 255
LANE_CHARACTERS_MAX = 255


@dataclass(frozen=True, slots=True)
class MessageTables:
    """The tables under one schema and prefix."""

    messages: sa.Table
    lane: sa.Table
    receipt: sa.Table

    @property
    def all(self) -> tuple[sa.Table, ...]:
        """All three."""
        return self.messages, self.lane, self.receipt

    def statements(self, dialect: Dialect) -> list[str]:
        """The DDL that makes them, each statement of which may be run twice."""
        first = ddl.schema_statement(self.messages.schema, dialect)
        return [*([first] if first else []), *(text for t in self.all for text in ddl.table_statements(t, dialect))]


def message_tables(*, schema: str | None = None, prefix: str = "fencepost_") -> MessageTables:
    """The tables, with metadata of their own."""
    into, name = sa.MetaData(), f"{prefix}messages"
    return MessageTables(_messages(into, name, schema), _lane(into, name, schema), _receipt(into, name, schema))


def _messages(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    """Nothing is unique but ``seq``: that a message comes once is the fence's doing, and a consumer that fell back to
    an earlier state must be able to be sent its messages again.
    """
    table = sa.Table(
        name,
        metadata,
        sa.Column("seq", Seq, sa.Identity(always=False), primary_key=True),
        sa.Column("id", exact(ID_CHARACTERS_MAX), nullable=False),
        sa.Column("topic", exact(TOPIC_CHARACTERS_MAX), nullable=False),
        sa.Column("key", exact(KEY_CHARACTERS_MAX, wide=True)),
        sa.Column("version", sa.BigInteger),
        sa.Column("type", named(TYPE_CHARACTERS_MAX), nullable=False),
        sa.Column("source", named(SOURCE_CHARACTERS_MAX), nullable=False),
        sa.Column("payload", Payload),  # None: a tombstone
        sa.Column("content_type", named(TYPE_CHARACTERS_MAX), nullable=False),
        sa.Column("headers", HeadersText),  # a JSON object of texts; None where there are none
        sa.Column("occurred_at", UtcDateTime, nullable=False),
        sa.Column("possible_repeat", Flag, nullable=False),
        sa.Column("lane", exact(LANE_CHARACTERS_MAX), nullable=False),
        sa.Column("delivered_at", UtcDateTime, nullable=False),
        schema=schema,
        **ON_MARIADB,
        sqlite_autoincrement=True,  # otherwise the last deleted seq is handed out again
    )
    store_as(table, QUEUE)
    return table


def _lane(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    table = sa.Table(
        f"{name}_lane",
        metadata,
        sa.Column("lane", exact(LANE_CHARACTERS_MAX), primary_key=True),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("counter", sa.BigInteger, nullable=False),  # of the last receipt; changed by each batch
        sa.Column("token", sa.BigInteger, nullable=False),  # it and the owner are for people to read
        sa.Column("owner", named(255), nullable=False),
        schema=schema,
        **ON_MARIADB,
    )
    store_as(table, UPDATED)
    return table


def _receipt(metadata: sa.MetaData, name: str, schema: str | None) -> sa.Table:
    """The fence is part of the key: an owner that was replaced in mid-batch then keeps no place of its successor's."""
    table = sa.Table(
        f"{name}_receipt",
        metadata,
        sa.Column("lane", exact(LANE_CHARACTERS_MAX), primary_key=True),
        sa.Column("counter", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", Bytes, nullable=False),
        schema=schema,
        **ON_MARIADB,
    )
    store_as(table, QUEUE)
    return table
