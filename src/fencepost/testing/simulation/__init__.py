"""The simulator: real relays under a virtual clock and a seeded chance, in a world of faults, judged by checkers.

``simulate(Scenario.of(seed))`` runs one seed. ``fencepost simulate --seeds N`` runs many (docs/simulation.md).
"""

from fencepost.testing.simulation.scenario import Scenario
from fencepost.testing.simulation.world import Result, simulate

__all__ = ["Result", "Scenario", "simulate"]
