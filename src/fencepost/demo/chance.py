"""What is drawn in a demonstration, repeatable by a seed."""

from __future__ import annotations

import random  # noqa: TID251 - a seeded generator, which the Clock does not have

from fencepost.clock import Clock


class Chance:
    """Draws numbers. The same seed and name draw the same ones."""

    def __init__(self, seed: int, name: str) -> None:
        self._random = random.Random(f"{seed}/{name}")  # noqa: S311 - nothing here is a secret

    def below(self, limit: int) -> int:
        """A whole number from 0 to ``limit`` - 1."""
        return self._random.randrange(limit)

    def happens(self, share: float) -> bool:
        """True in that share of the draws."""
        return self._random.random() < share

    def between(self, low: float, high: float) -> float:
        """A number between the two."""
        return self._random.uniform(low, high)


def new_seed(clock: Clock) -> int:
    """A seed that nobody chose."""
    return int(clock.random() * 1_000_000)
