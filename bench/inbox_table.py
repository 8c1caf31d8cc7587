"""The ceiling of an inbox table: the database's own driver inserts the same rows in transactions of the same size,
each in the quickest way that it has, without an outbox to read.

Run by ``bench.relay --broker inbox+...``. The tables there are dropped.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC
from typing import Any

from sqlalchemy import text

from bench import meter, workload
from fencepost.sql.client import client
from fencepost.sql.messages import message_tables

COLUMNS = (
    *("id", "topic", "key", "version", "type", "source", "payload", "content_type", "occurred_at"),
    *("possible_repeat", "lane", "delivered_at"),
)
Put = Callable[[Any, Sequence[tuple[Any, ...]]], Awaitable[None]]


def main(url: str, topic: str, rows: int, batch: int, size: int) -> dict[str, float]:
    """Messages per second and CPU per message."""
    return asyncio.run(_insert(url.partition("+")[2], topic, rows, batch, size))


async def _insert(url: str, topic: str, rows: int, batch: int, size: int) -> dict[str, float]:
    there = client(url, 30.0, create=True)
    name = there.engine.dialect.name
    work = [values(row, name) for row in workload.rows(rows, topic=topic, size=size)]
    async with there.engine.connect() as connection:
        for statement in message_tables().statements(there.engine.dialect):
            await connection.execute(text(statement))
        driver = (await connection.get_raw_connection()).driver_connection
        put = _WAYS[name]
        started, cpu = time.perf_counter(), meter.cpu_s()
        for first in range(0, rows, batch):
            await put(driver, work[first : first + batch])
        elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    return {"messages_per_s": rows / elapsed, "cpu_us_per_message": cpu / rows * 1e6}


def values(row: workload.Row, name: str) -> tuple[Any, ...]:
    """A row of the inbox table, as its driver takes it."""
    id_, topic, key, version, kind, _, payload, content_type, moment = row
    when: Any = moment if name == "postgresql" else moment.astimezone(UTC).replace(tzinfo=None)
    when = when.isoformat(" ", "microseconds") if name == "sqlite" else when
    return id_, topic, key, version, kind, "/bench", payload, content_type, when, False, "bench.0", when


async def _copy(driver: Any, rows: Sequence[tuple[Any, ...]]) -> None:
    await driver.copy_records_to_table("fencepost_messages", records=rows, columns=COLUMNS)


async def _insert_mariadb(driver: Any, rows: Sequence[tuple[Any, ...]]) -> None:
    names = ", ".join(f"`{name}`" for name in COLUMNS)
    async with driver.cursor() as cursor:
        await cursor.execute("BEGIN")
        marks = ", ".join(["%s"] * len(COLUMNS))
        await cursor.executemany(f"INSERT INTO fencepost_messages ({names}) VALUES ({marks})", rows)
        await cursor.execute("COMMIT")


async def _insert_sqlite(driver: Any, rows: Sequence[tuple[Any, ...]]) -> None:
    names, marks = ", ".join(f'"{name}"' for name in COLUMNS), ", ".join("?" * len(COLUMNS))
    await driver.execute("BEGIN IMMEDIATE")
    await driver.executemany(f"INSERT INTO fencepost_messages ({names}) VALUES ({marks})", rows)
    await driver.execute("COMMIT")


_WAYS: dict[str, Put] = {"postgresql": _copy, "mysql": _insert_mariadb, "sqlite": _insert_sqlite}


def forget(url: str, _: str) -> None:
    """Drop the tables."""
    asyncio.run(_forget(url.partition("+")[2]))


async def _forget(url: str) -> None:
    async with client(url, 30.0).engine.connect() as connection:
        for table in message_tables().all:
            await connection.execute(text(f"DROP TABLE IF EXISTS {table.name}"))


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
