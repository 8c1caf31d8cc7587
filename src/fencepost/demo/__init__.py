"""A demonstration on real servers: orders are committed, relays are killed, and the stream is compared at the end."""

from fencepost.demo.records import DemoOptions, DemoResult, Failover, Snapshot
from fencepost.demo.show import run

__all__ = ["DemoOptions", "DemoResult", "Failover", "Snapshot", "run"]
