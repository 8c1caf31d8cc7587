"""The composition root: from a configuration to running parts, and to reports about them. Front doors only render."""

from fencepost.app.build import (
    Parts,
    broker,
    database,
    lane,
    lease_schema,
    lease_store,
    owner,
    parts,
    relay,
    schema,
    source,
)
from fencepost.app.checking import CheckReport, check
from fencepost.app.embedding import Running, relaying
from fencepost.app.findings import Finding
from fencepost.app.purging import purge, purgeable
from fencepost.app.status import Monitor, StatusReport, status

__all__ = [
    "CheckReport",
    "Finding",
    "Monitor",
    "Parts",
    "Running",
    "StatusReport",
    "broker",
    "check",
    "database",
    "lane",
    "lease_schema",
    "lease_store",
    "owner",
    "parts",
    "purge",
    "purgeable",
    "relay",
    "relaying",
    "schema",
    "source",
    "status",
]
