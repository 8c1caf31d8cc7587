"""A relay that drains what waits and stops: messages per second from the take-over to the last settle."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Literal

from bench import meter
from fencepost import plugins
from fencepost.app.process import dedicate
from fencepost.events import Event, Published, Settled, TakenOver
from fencepost.ports import BrokerOptions, DatabaseOptions, Lane, LeaseOptions
from fencepost.relay import Relay, RelayOptions


class Gauge:
    """Reads the clocks at the take-over and at each settle."""

    def __init__(self, rows: int) -> None:
        self.rows, self.settled, self.batches = rows, 0, 0
        self.started = self.cpu = self.ended = self.cpu_end = self.publishing_s = 0.0
        self.relay: Relay | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, TakenOver):
            self.started, self.cpu = time.perf_counter(), meter.cpu_s()
        elif isinstance(event, Published):
            self.publishing_s += event.duration_s
            self.batches += 1
        elif isinstance(event, Settled):
            self.settled += event.rows
            self.ended, self.cpu_end = time.perf_counter(), meter.cpu_s()
            if self.settled >= self.rows and self.relay is not None:
                self.relay.stop()


async def run(
    database: str, broker: str, rows: int, batch: int, relay: str, settle: Literal["delete", "mark"] = "delete"
) -> dict[str, float]:
    """Drain ``rows`` pending rows."""
    gauge = Gauge(rows)
    plugin = plugins.load("database", plugins.name_of("database", database))
    options = DatabaseOptions(url=database, settle=settle)
    if settle == "mark":
        await plugin.schema(options).apply()  # has a column and an index more
    source = plugin.source(options)
    target = plugins.load("broker", plugins.name_of("broker", broker)).broker(
        BrokerOptions(url=broker, source="/bench")
    )
    leases = plugins.load("election", plugins.name_of("election", database)).lease_store(LeaseOptions(url=database))
    service = Relay(source, target, leases, Lane(relay), "bench", RelayOptions(batch=batch), gauge)
    gauge.relay = service
    dedicate()
    await service.run()
    elapsed = gauge.ended - gauge.started
    return {
        "messages_per_s": gauge.settled / elapsed,
        "cpu_us_per_message": (gauge.cpu_end - gauge.cpu) / gauge.settled * 1e6,
        "peak_rss_mb": meter.peak_rss_mb(),
        "publishing_share": gauge.publishing_s / elapsed,
        "messages_per_batch": gauge.settled / gauge.batches,
    }


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    if options.pop("profile", False):
        import cProfile
        import pstats

        profile = cProfile.Profile()
        profile.runcall(lambda: print(asyncio.run(run(**options)), file=sys.stderr))
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(25)
    else:
        print(json.dumps(asyncio.run(run(**options))))
