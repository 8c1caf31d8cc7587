"""How long a lane stands still when its leader goes: from the signal to the moment when a standby has taken over at the
broker and settled the receipts, ready to publish.

    python -m bench.failover [--times 20] [--ttl 5] [--json]

PostgreSQL to Kafka and SQLite to NATS, on the servers of dev/services; two relay processes each; SIGKILL, SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.servers import url_of
from fencepost import app
from fencepost.clock import SYSTEM_CLOCK
from fencepost.config import load
from fencepost.demo.fleet import Fleet
from fencepost.demo.place import Place, place
from fencepost.demo.records import DemoOptions

_PATIENCE_S = 30.0
_WARM_S = 3.0  # a standby that has just been started gets its connections ready


async def measure(database: str, broker: str, *, times: int, ttl_s: float) -> dict[str, float]:
    """Stand-still in seconds after SIGKILL and after SIGTERM."""
    async with place(DemoOptions(database=database, broker=broker), SYSTEM_CLOCK) as made:
        env = {**made.env, "FENCEPOST_LEASE__TTL_S": str(ttl_s), "FENCEPOST_LOG__LEVEL": "debug"}
        fleet = Fleet(made.config_file, made.folder, env, SYSTEM_CLOCK)
        try:
            for _ in range(2):
                await fleet.start()
            found = {name: [await _once(made, fleet, name) for _ in range(times)] for name in ("sigkill", "sigterm")}
        finally:
            await fleet.stop()
    result: dict[str, float] = {}
    for name, values in found.items():
        result |= {f"{name}_median_s": statistics.median(values), f"{name}_max_s": max(values)}
    return result


async def _once(made: Place, fleet: Fleet, how: str) -> float:
    leader = await _leader(made)
    await asyncio.sleep(_WARM_S)
    gone = time.time()
    if how == "sigkill":
        await fleet.kill(leader)
    else:
        await fleet.end(leader)
    ready = await _ready_after(made.folder, gone)
    await fleet.start()
    return ready - gone


async def _leader(made: Place) -> int:
    """The pid of who has the lease."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            status = await app.status(load(made.config_file, made.env))
            if status.leader is not None:
                return int(status.leader.split(":")[1])
            await asyncio.sleep(0.2)


async def _ready_after(folder: Path, moment: float) -> float:
    """When the next lane was ready, by the relays' own logs."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            if (at := await asyncio.to_thread(_first_ready, folder, moment)) is not None:
                return at
            await asyncio.sleep(0.05)


def _first_ready(folder: Path, moment: float) -> float | None:
    lines = (line for log in folder.glob("relay-*.log") for line in log.read_text().splitlines())
    records = (json.loads(line) for line in lines if line.startswith("{"))
    ready = (r["ts"] for r in records if r.get("event") == "receipts_settled")
    return min((at for at in map(_seconds, ready) if at > moment), default=None)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="bench.failover", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--ttl", type=float, default=5.0, help="seconds of a lease")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args(arguments)
    result: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        routes = {
            "postgresql_kafka": (url_of("postgresql"), url_of("kafka")),
            "sqlite_nats": (f"sqlite:///{folder}/orders.db", url_of("nats")),
        }
        for name, (database, broker) in routes.items():
            found = asyncio.run(measure(database, broker, times=options.times, ttl_s=options.ttl))
            print(name, "  ".join(f"{key} {value:.2f}" for key, value in found.items()), file=sys.stderr, flush=True)
            result |= {f"{name}_{key}": round(value, 3) for key, value in found.items()}
    if options.json:
        print(json.dumps({"times": options.times, "ttl_s": options.ttl, **result}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
