"""The rules of ``fencepost.ports.LeaseStore``."""

from __future__ import annotations

from fencepost.testing.elections.expiring import ExpiringRules
from fencepost.testing.elections.terms import TermRules
from fencepost.testing.elections.waking import WakingRules


class ElectionRules(TermRules, ExpiringRules, WakingRules):
    """Every rule of a lease store: subclass it and set ``election``.

    Override the fixture ``election_url`` where the address is not found by itself.
    """
