"""The same rows for every contender: payloads of a given size, keys in rotation, a version per key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import asyncpg

from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases import postgresql
from fencepost.message import slot_of
from fencepost.ports import DatabaseOptions

KEYS = 2000
TOPIC_COLUMNS = ["id", "topic", "key", "version", "type", "slot", "payload", "content_type", "occurred_at"]


Row = tuple[str, str, str, int, str, int, bytes, str, datetime]
"""The values of TOPIC_COLUMNS."""


def payload(size: int) -> bytes:
    """JSON-like bytes that compress about as well as an order does, not as well as zeros."""
    text = ",".join(f'"field_{n}":"{(n * 2654435761) % 2**32:08x}"' for n in range(size // 20 + 2))
    return ("{" + text)[: size - 1].encode() + b"}"


def rows(count: int, *, topic: str, size: int) -> Iterator[Row]:
    """The columns of TOPIC_COLUMNS, row by row."""
    body, now = payload(size), datetime.now(UTC)
    for n in range(count):
        key = f"customer-{n % KEYS}"
        id_ = SYSTEM_CLOCK.new_id()
        yield (id_, topic, key, n // KEYS + 1, "order.placed", slot_of(key, id_), body, "application/json", now)


async def fill(url: str, count: int, *, topic: str, size: int) -> None:
    """An empty schema with ``count`` pending rows."""
    options = DatabaseOptions(url=url)
    await postgresql.schema(options).apply()
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("TRUNCATE fencepost_outbox, fencepost_entity, fencepost_parked, fencepost_lease")
        await connection.copy_records_to_table(
            "fencepost_outbox", records=rows(count, topic=topic, size=size), columns=TOPIC_COLUMNS
        )
        await connection.execute("VACUUM ANALYZE fencepost_outbox")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


def fill_sync(url: str, count: int, *, topic: str, size: int) -> None:
    """``fill`` for those without a loop."""
    asyncio.run(fill(url, count, topic=topic, size=size))
