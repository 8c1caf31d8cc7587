"""The rules of ``fencepost.ports.Source``, ``Session`` and ``Schema``."""

from __future__ import annotations

from fencepost.testing.sources.content import ContentRules
from fencepost.testing.sources.delaying import DelayingRules
from fencepost.testing.sources.failing import FailingRules
from fencepost.testing.sources.lanes import LaneRules
from fencepost.testing.sources.parking import ParkingRules
from fencepost.testing.sources.purging import PurgingRules
from fencepost.testing.sources.reading import ReadingRules
from fencepost.testing.sources.relaying import RelayingRules
from fencepost.testing.sources.reserving import ReservingRules
from fencepost.testing.sources.schema import SchemaRules
from fencepost.testing.sources.sessions import SessionRules
from fencepost.testing.sources.settling import SettlingRules
from fencepost.testing.sources.waiting import WaitingRules


class SourceRules(
    SchemaRules,
    ReadingRules,
    LaneRules,
    ContentRules,
    SettlingRules,
    ReservingRules,
    FailingRules,
    ParkingRules,
    DelayingRules,
    WaitingRules,
    RelayingRules,
    SessionRules,
):
    """Every rule of a database plug-in: subclass it and set ``database``.

    Override the fixture ``database_url`` where the address is not found by itself.
    """


class MarkedSourceRules(SettlingRules, PurgingRules):
    """What is different where settled rows stay; for plug-ins with "mark" in their ``OFFERS``."""

    settle = "mark"
