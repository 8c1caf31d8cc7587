"""What one order of steps led to, and what all orders of two parties came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

Side = Literal["L", "R"]
"""Left or right: one of the two parties."""


@dataclass(slots=True)
class Taken:
    """A step. ``waited``: it did not return until the other party had gone on. ``error`` is what it raised.

    ``returned`` counts the steps of both parties in the order in which they returned, from 0; None: it never did.
    """

    side: Side
    name: str
    waited: bool = False
    error: Exception | None = None
    returned: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a party ended: with what it returned, or with an error."""

    result: object = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class History:
    """One order of the steps. ``steps`` stand in the order in which they began; ``told`` is one line for people.

    ``cut``: orders, as far as they go, that could not be run because the party whose turn it would have been waited
    for a lock.
    """

    steps: Sequence[Taken]
    left: Outcome
    right: Outcome
    cut: Sequence[str]
    told: str

    @property
    def order(self) -> str:
        """Whose steps began, one letter each: ``LLRLR``."""
        return "".join(taken.side for taken in self.steps)

    @property
    def waited(self) -> bool:
        """Whether any step had to wait for the other party."""
        return any(taken.waited for taken in self.steps)

    @property
    def errors(self) -> list[Exception]:
        """What ended the parties, where it was an error."""
        return [outcome.error for outcome in (self.left, self.right) if outcome.error is not None]

    def done(self, *names: str) -> list[Side]:
        """Whose steps of these names returned without an error, in the order in which they did."""
        found = [t for t in self.steps if t.name in names and t.error is None and t.returned is not None]
        return [t.side for t in sorted(found, key=lambda t: t.returned or 0)]

    def __str__(self) -> str:
        return f"{self.order}: {self.told}"


@dataclass(frozen=True, slots=True)
class Report:
    """All orders of two parties, each once. ``alike``: but for those that begin with the right one's."""

    histories: Sequence[History]
    alike: bool = False

    @property
    def orders(self) -> int:
        """How many there were."""
        return len(self.histories)

    @property
    def waited(self) -> int:
        """In how many of them a step had to wait for the other party."""
        return sum(history.waited for history in self.histories)

    def unseen(self, left: int, right: int) -> list[str]:
        """Orders of ``left`` and ``right`` steps that were neither run nor impossible because of a lock.

        There are (left + right)! / left! / right! orders in all. Says nothing of parties that take now more, now fewer.
        """
        run = {history.order for history in self.histories}
        cut = {order for history in self.histories for order in history.cut}
        return [
            order
            for order in self._all(left, right)
            if order not in run and not any(order[:n] in cut for n in range(1, len(order) + 1))
        ]

    def impossible(self, left: int, right: int) -> int:
        """How many of these orders a lock made impossible."""
        return len(self._all(left, right)) - self.orders - len(self.unseen(left, right))

    def _all(self, left: int, right: int) -> list[str]:
        return [order for order in all_orders(left, right) if not (self.alike and order.startswith("R"))]


def all_orders(left: int, right: int) -> list[str]:
    """Every order of so many steps of each party, ``LLRR`` first."""
    count = left + right
    return [
        "".join("L" if n in places else "R" for n in range(count))
        for places in map(frozenset, combinations(range(count), left))
    ]
