"""Every contract between the core and its plug-ins: Source, Broker, LeaseStore, and the values that cross them.

Common rules. Each call has a deadline of its own and raises DeadlineExceeded rather than hang (a server that accepts
connections and never answers is a fault like any other). Each error is one of the four families of fencepost.errors.
All calls are made in one event loop; none of them blocks it for longer than one batch takes to be encoded.
"""

from __future__ import annotations

from fencepost.ports.broker import Broker, BrokerOptions, Capabilities, Delivery, Failure, Handoff, Outcome
from fencepost.ports.database import Backlog, DatabaseOptions, Limited, Purger, Purging, Schema, Session, Source
from fencepost.ports.lease import Holder, LeaseOptions, LeaseStore
from fencepost.ports.parking import ParkedFilter, ParkedMessage, ParkedStore, Parking
from fencepost.ports.tenure import Lane, Term

__all__ = [
    "Backlog",
    "Broker",
    "BrokerOptions",
    "Capabilities",
    "DatabaseOptions",
    "Delivery",
    "Failure",
    "Handoff",
    "Holder",
    "Lane",
    "LeaseOptions",
    "LeaseStore",
    "Limited",
    "Outcome",
    "ParkedFilter",
    "ParkedMessage",
    "ParkedStore",
    "Parking",
    "Purger",
    "Purging",
    "Schema",
    "Session",
    "Source",
    "Term",
]
