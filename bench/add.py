"""What a message costs the business transaction: the same update and insert without a message, with a bare INSERT of
the same row, and with the very statements that ``Outbox.add`` sends, by pgbench, in turn.

pgbench and not Python drives them, because the question is what the database does; what Python adds is small beside a
commit.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

import asyncpg
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg

from bench import workload
from fencepost.databases import postgresql
from fencepost.ports import DatabaseOptions
from fencepost.sql.outbox import COLUMNS, add_statements
from fencepost.sql.statements import Prepared

CONNECTIONS = 8
ENTITIES = 10_000

_TABLES = """
DROP TABLE IF EXISTS bench_account, bench_entry;
CREATE TABLE bench_account (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE bench_entry (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int NOT NULL, amount int NOT
NULL); INSERT INTO bench_account SELECT n, 0 FROM generate_series(1, 10000) n; TRUNCATE fencepost_outbox,
fencepost_entity;
"""

_BUSINESS = """\\set account random(1, 10000)
BEGIN;
UPDATE bench_account SET balance = balance + 1 WHERE id = :account;
INSERT INTO bench_entry (account, amount) VALUES (:account, 1);
"""


def measure(database: str, *, rounds: int, seconds: int, size: int) -> dict[str, float]:
    """Transactions per second of each form: the median over the rounds."""
    scripts = {
        "none": "",
        "bare_insert": _bare(size),
        "counter": _add("counter", size),
        "position": _add("position", size),
    }
    asyncio.run(postgresql.schema(DatabaseOptions(url=database)).apply())
    found: dict[str, list[float]] = {name: [] for name in scripts}
    for _ in range(rounds):
        for name, message in scripts.items():
            asyncio.run(_prepare(database))
            found[name].append(_pgbench(database, f"{_BUSINESS}{message}\nEND;\n", seconds))
    result = {f"add_tps_{name}": statistics.median(values) for name, values in found.items()}
    bare = found["bare_insert"]
    for name in ("counter", "position"):
        result[f"add_{name}_to_bare"] = statistics.median(a / b for a, b in zip(found[name], bare, strict=True))
    return result


async def _prepare(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(_TABLES)
    await connection.execute("VACUUM ANALYZE bench_account")
    await connection.execute("CHECKPOINT")
    await connection.close()


def _values(size: int) -> dict[str, str]:
    """SQL that stands for the values of a message; the same in every form."""
    key = "('customer-' || :account)"
    return {
        "id": "gen_random_uuid()",
        "topic": "'orders'",
        "key": key,
        "version": "NULL",
        "type": "'order.placed'",
        "slot": "(:account % 256)",
        "payload": f"'\\x{workload.payload(size).hex()}'",
        "content_type": "'application/json'",
        "headers": "NULL",
        "occurred_at": "now()",
        "available_at": "NULL",
        "state": "0",
        "lock": ":account",
    }


def _bare(size: int) -> str:
    values = _values(size)
    return f"INSERT INTO fencepost_outbox ({', '.join(COLUMNS)}) VALUES ({', '.join(values[c] for c in COLUMNS)});"


def _add(versions: Literal["counter", "position"], size: int) -> str:
    dialect = PGDialect_asyncpg()  # type: ignore[no-untyped-call]
    statement: Prepared = add_statements(dialect, schema=None, prefix="fencepost_", versions=versions).drawn
    values = _values(size)
    text = re.sub(r"'fencepost:(\w+)'", r"'fencepost' || ':' || '\1'", statement.text)  # pgbench would see a variable
    return re.sub(r"\$(\d+)", lambda place: values[statement.names[int(place[1]) - 1]], text) + ";"


def _pgbench(database: str, script: str, seconds: int) -> float:
    program = shutil.which("pgbench") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/pgbench")), None)
    if program is None:
        raise SystemExit("pgbench was not found; it comes with PostgreSQL's server package")
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        load = [
            "-n",
            "-M",
            "prepared",
            "-c",
            str(CONNECTIONS),
            "-j",
            "2",
            "-T",
            str(seconds),
            "-f",
            file.name,
            database,
        ]
        done = subprocess.run([program, *load], check=False, capture_output=True, text=True)
    found = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    if found is None or done.returncode:
        raise SystemExit(f"pgbench failed: {done.stdout}\n{done.stderr}\n{script}")
    return float(found[1])
