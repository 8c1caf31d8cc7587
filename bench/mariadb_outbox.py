"""MariaDB: how fast a relay drains beside what asyncmy reads and deletes without a broker, and what adding costs.

Run by ``bench.relay --database mariadb://...``; the tables ``fencepost_*`` of that database are emptied.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncmy

from bench import meter, workload
from fencepost.databases import mariadb
from fencepost.outbox import AsyncOutbox
from fencepost.ports import DatabaseOptions
from fencepost.sql.mariadb_address import connect_arguments

_WRITERS = 8
_COLUMNS = "id, topic, `key`, version, type, slot, payload, content_type, occurred_at"
_BENCH_TABLES = (
    "SET sql_notes = 0",  # no warning about tables that are not there yet
    "DROP TABLE IF EXISTS bench_account, bench_entry",
    "CREATE TABLE bench_account (id INT PRIMARY KEY, balance BIGINT NOT NULL)",
    "CREATE TABLE bench_entry (id BIGINT AUTO_INCREMENT PRIMARY KEY, account INT NOT NULL)",
    "INSERT INTO bench_account SELECT seq, 0 FROM seq_0_to_2000",
)


def fill(database: str, count: int, *, topic: str, size: int) -> None:
    """An outbox with ``count`` pending messages and nothing else."""
    asyncio.run(_fill(database, count, topic=topic, size=size))


async def _fill(database: str, count: int, *, topic: str, size: int) -> None:
    await mariadb.schema(DatabaseOptions(url=database)).apply()
    async with await _connected(database) as connection, connection.cursor() as cursor:
        for table in ("outbox", "entity", "parked", "lease"):
            await cursor.execute(f"TRUNCATE fencepost_{table}")
        for text in _BENCH_TABLES:
            await cursor.execute(text)
        if count:
            key = f"CONCAT('customer-', seq %% {workload.KEYS})"
            await cursor.execute(
                f"INSERT INTO fencepost_outbox ({_COLUMNS}) SELECT UUID(), %s, {key}, seq DIV {workload.KEYS} + 1,"
                f" 'order.placed', CRC32({key}) %% 256, %s, 'application/json', UTC_TIMESTAMP(6)"
                f" FROM seq_0_to_{count - 1}",
                (topic, workload.payload(size)),
            )


def ceiling(url: str, rows: int, batch: int) -> dict[str, float]:
    """Read and delete every row with asyncmy, a batch at a time; nothing is published, no promise is kept."""
    return asyncio.run(_ceiling(url, rows, batch))


async def _ceiling(url: str, rows: int, batch: int) -> dict[str, float]:
    done, started, cpu = 0, time.perf_counter(), meter.cpu_s()
    async with await _connected(url) as connection, connection.cursor() as cursor:
        while done < rows:
            await cursor.execute(f"SELECT seq, {_COLUMNS} FROM fencepost_outbox ORDER BY seq LIMIT {batch}")
            page = await cursor.fetchall()
            named = ",".join(str(row[0]) for row in page)
            await cursor.execute(f"DELETE FROM fencepost_outbox WHERE seq IN ({named})")
            done += len(page)
    elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    return {"messages_per_s": done / elapsed, "cpu_us_per_message": cpu / done * 1e6}


async def _connected(url: str) -> Any:
    return await asyncmy.connect(**connect_arguments(url))


# ------------------------------------------------------------------------------------------------- what adding costs

Add = Callable[[Any, int], Awaitable[object]]


def adding(database: str, options: argparse.Namespace) -> dict[str, float]:
    """Transactions per second of eight writers: an UPDATE and an INSERT alone, with a bare INSERT, with a message."""
    return asyncio.run(_adding(database, options))


async def _adding(database: str, options: argparse.Namespace) -> dict[str, float]:
    body, outbox = workload.payload(options.size), AsyncOutbox()
    bare = f"INSERT INTO fencepost_outbox ({_COLUMNS}) VALUES (UUID(), 't', %s, 1, 'x', 0, %s, 'a/b', UTC_TIMESTAMP(6))"

    async def nothing(connection: Any, n: int) -> None:
        return

    async def bare_insert(connection: Any, n: int) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute(bare, (f"customer-{n}", body))

    async def counter(connection: Any, n: int) -> object:
        return await outbox.add(connection, "bench", body, key=f"customer-{n}")

    forms: dict[str, Add] = {"none": nothing, "bare_insert": bare_insert, "counter": counter}
    found: dict[str, list[float]] = {name: [] for name in forms}
    seconds = max(2, options.seconds // 4)
    for _ in range(options.rounds):
        await _fill(database, 0, topic="bench", size=options.size)
        for name, add in forms.items():
            done = await asyncio.gather(*[_write(database, add, number, seconds) for number in range(_WRITERS)])
            found[name].append(sum(done) / seconds)
    result = {f"add_tps_{name}": statistics.median(values) for name, values in found.items()}
    return result | {"add_counter_to_bare": result["add_tps_counter"] / result["add_tps_bare_insert"]}


async def _write(database: str, add: Add, number: int, seconds: float) -> int:
    done, end = 0, time.perf_counter() + seconds
    async with await _connected(database) as connection, connection.cursor() as cursor:
        while time.perf_counter() < end:
            account = (done * _WRITERS + number) % workload.KEYS
            await connection.begin()
            await cursor.execute(f"UPDATE bench_account SET balance = balance + 1 WHERE id = {account}")
            await cursor.execute(f"INSERT INTO bench_entry (account) VALUES ({account})")
            await add(connection, account)
            await connection.commit()
            done += 1
    return done


if __name__ == "__main__":
    print(json.dumps(ceiling(**json.loads(sys.argv[1]))))
