"""One broker of a relay: what it takes of the outbox, its lane there, and whether it gets on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fencepost.message import Stored
from fencepost.ports import Broker, Capabilities, Lane
from fencepost.relay.retry import Circuit


@dataclass(slots=True)
class Outlet:
    """``takes`` says which messages are this broker's, None that all are. Two outlets of one relay have lanes of
    different names: they may be on one server.

    ``capabilities`` are there once it has been opened, ``circuit`` once a relay has it.
    """

    broker: Broker
    lane: Lane
    takes: Callable[[Stored], bool] | None = None
    capabilities: Capabilities | None = None
    circuit: Circuit = field(init=False)
