"""What a seed decides before anything happens."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from fencepost.message import SLOTS
from fencepost.ports import Delivery, Lane
from fencepost.relay.service import RelayOptions

GOOD, BAD = "orders", "refused"
"""The topics: the broker refuses many messages of the second one, each time it is asked anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One simulated system, and how much trouble it meets. Times are in virtual seconds.

    ``drift``: by how much, at most, a machine's clock runs too fast or too slow. ``struck``: how often a relay crashes
    or is paused at one of the moments of a call. ``weather``: how bad the network is (0 to 1). ``unrest``: seconds
    between two larger troubles. ``poison``: the share of messages that the broker refuses.
    """

    seed: int
    delivery: Delivery
    evidence: bool
    relays: int
    lanes: int
    batch: int
    ttl_s: float
    writers: int
    transactions: int
    keys: int
    poison: float
    delayed: float
    on_poison: str
    drift: float
    struck: float
    weather: float
    unrest_s: float
    trouble_s: float

    @classmethod
    def of(cls, seed: int, **fixed: Any) -> Scenario:
        """The scenario of a seed. ``fixed`` are fields that are not left to it."""
        chance = random.Random(f"scenario {seed}")
        classes = [Delivery.ATOMIC] * 4 + [Delivery.PLAIN] * 2 + [Delivery.DEDUPLICATING]
        drawn = cls(
            seed=seed,
            delivery=chance.choice(classes),
            evidence=chance.random() < 0.5,
            relays=chance.choice([1, 2, 2, 2, 3]),
            lanes=chance.choice([1, 1, 2, 3]),
            batch=chance.choice([1, 2, 4, 10]),
            ttl_s=chance.choice([1.0, 2.0, 5.0]),
            writers=chance.choice([1, 2, 3]),
            transactions=chance.choice([3, 6, 10]),
            keys=chance.choice([1, 3, 6]),
            poison=chance.choice([0.0, 0.0, 0.1, 0.5]),
            delayed=chance.choice([0.0, 0.0, 0.1]),
            on_poison=chance.choice(["park", "park", "park", "block"]),
            drift=chance.choice([0.0, 0.0, 0.02, 0.04]),
            struck=chance.choice([0.0, 0.002, 0.01, 0.03]),
            weather=chance.choice([0.0, 0.3, 1.0]),
            unrest_s=chance.choice([0.3, 0.6, 1.2, 2.4]),
            trouble_s=chance.choice([3.0, 3.0, 6.0, 12.0]),
        )
        return replace(drawn, **fixed)

    def lane(self, index: int) -> Lane:
        """The lanes share the slots evenly."""
        first, after = SLOTS * index // self.lanes, SLOTS * (index + 1) // self.lanes
        return Lane("orders", index, first, after - 1)

    def options(self) -> RelayOptions:
        """How every relay works."""
        return RelayOptions(
            batch=self.batch,
            ttl_s=self.ttl_s,
            poll_s=1.0,
            max_attempts=3,
            on_poison=self.on_poison,
            retry_base_s=0.05,
            retry_cap_s=1.0,
        )
