"""The composition root: from a configuration to running parts, and to reports about them. Front doors only render."""

from fencepost.app.build import (
    Parts,
    broker,
    by_broker,
    database,
    lane,
    lease_schema,
    lease_store,
    outlets,
    owner,
    parts,
    relay,
    schema,
    source,
)
from fencepost.app.checking import CheckReport, check
from fencepost.app.embedding import Running, relaying
from fencepost.app.findings import Finding
from fencepost.app.parked import WorkedOff, parked, work_off_parked
from fencepost.app.purging import purge, purgeable
from fencepost.app.status import Given, Monitor, StatusReport, status

__all__ = [
    "CheckReport",
    "Finding",
    "Given",
    "Monitor",
    "Parts",
    "Running",
    "StatusReport",
    "WorkedOff",
    "broker",
    "by_broker",
    "check",
    "database",
    "lane",
    "lease_schema",
    "lease_store",
    "outlets",
    "owner",
    "parked",
    "parts",
    "purge",
    "purgeable",
    "relay",
    "relaying",
    "schema",
    "source",
    "status",
    "work_off_parked",
]
