"""SQLite: how fast a relay drains beside what aiosqlite reads and deletes without a broker, and what adding costs.

Run by ``bench.relay --database sqlite:///FILE``; the tables ``fencepost_*`` of that file are emptied.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiosqlite
import sqlalchemy as sa

from bench import meter, workload
from fencepost.databases import sqlite
from fencepost.outbox import Outbox
from fencepost.ports import DatabaseOptions

_COLUMNS = ", ".join(workload.TOPIC_COLUMNS)
_BENCH_TABLES = """
    DROP TABLE IF EXISTS bench_account;
    DROP TABLE IF EXISTS bench_entry;
    CREATE TABLE bench_account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
    CREATE TABLE bench_entry (id INTEGER PRIMARY KEY, account INTEGER NOT NULL);
"""


def fill(database: str, count: int, *, topic: str, size: int) -> None:
    """An outbox with ``count`` pending messages and nothing else."""
    asyncio.run(sqlite.schema(DatabaseOptions(url=database)).apply())
    connection = sqlite3.connect(_file(database))
    try:
        for table in ("outbox", "entity", "parked", "lease"):
            connection.execute(f"DELETE FROM fencepost_{table}")
        connection.executescript(_BENCH_TABLES)
        connection.executemany("INSERT INTO bench_account VALUES (?, 0)", [(n,) for n in range(workload.KEYS)])
        values = ", ".join("?" for _ in workload.TOPIC_COLUMNS)
        rows = ((*row[:-1], f"{row[-1]:%Y-%m-%d %H:%M:%S.%f}") for row in workload.rows(count, topic=topic, size=size))
        connection.executemany(f"INSERT INTO fencepost_outbox ({_COLUMNS}) VALUES ({values})", rows)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


async def ceiling(url: str, rows: int, batch: int) -> dict[str, float]:
    """Read and delete every row with aiosqlite, a batch at a time; nothing is published, no promise is kept."""
    done, started, cpu = 0, time.perf_counter(), meter.cpu_s()
    async with aiosqlite.connect(_file(url)) as connection:
        while done < rows:
            query = f"SELECT seq, {_COLUMNS} FROM fencepost_outbox ORDER BY seq LIMIT {batch}"
            page = list(await connection.execute_fetchall(query))
            named = ",".join(str(row[0]) for row in page)
            await connection.execute(f"DELETE FROM fencepost_outbox WHERE seq IN ({named})")
            await connection.commit()
            done += len(page)
    elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    return {"messages_per_s": done / elapsed, "cpu_us_per_message": cpu / done * 1e6}


def adding(database: str, options: argparse.Namespace) -> dict[str, float]:
    """Transactions per second of one writer: an UPDATE and an INSERT alone, with a bare INSERT, with a message."""
    body, outbox = workload.payload(options.size), Outbox()
    values = "lower(hex(randomblob(16))), 't', ?, 1, 'x', 0, ?, 'a/b', '2000-01-01 00:00:00.000000'"
    bare = f"INSERT INTO fencepost_outbox ({_COLUMNS}) VALUES ({values})"
    forms: dict[str, Callable[[sqlite3.Connection, int], object]] = {
        "none": lambda connection, n: None,
        "bare_insert": lambda connection, n: connection.execute(bare, (f"customer-{n}", body)),
        "counter": lambda connection, n: outbox.add(connection, "bench", body, key=f"customer-{n}"),
    }
    found: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(options.rounds):
        fill(database, 0, topic="bench", size=options.size)
        for name, add in forms.items():
            found[name].append(_rate(database, add, max(2, options.seconds // 4)))
    result = {f"add_tps_{name}": statistics.median(values) for name, values in found.items()}
    return result | {"add_counter_to_bare": result["add_tps_counter"] / result["add_tps_bare_insert"]}


def _rate(database: str, add: Callable[[sqlite3.Connection, int], object], seconds: float) -> float:
    connection = sqlite3.connect(_file(database), isolation_level=None)
    done, started = 0, time.perf_counter()
    try:
        while time.perf_counter() < started + seconds:
            account = done % workload.KEYS
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE bench_account SET balance = balance + 1 WHERE id = ?", (account,))
            connection.execute("INSERT INTO bench_entry (account) VALUES (?)", (account,))
            add(connection, account)
            connection.execute("COMMIT")
            done += 1
        return done / (time.perf_counter() - started)
    finally:
        connection.close()


def _file(database: str) -> str:
    file = sa.make_url(database).database
    if not file:
        raise SystemExit("SQLite needs a file: --database sqlite:////tmp/bench.db")
    return str(Path(file))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(ceiling(**json.loads(sys.argv[1])))))
