"""The search itself, on models so small that the answer is plain."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import pytest

from tests.model.search import STUCK, search


@dataclass(frozen=True)
class Walk:
    """From (0, 0), one to the right or one up, within a square; ``broken`` corners, and ``traps`` without a way on."""

    size: int = 3
    broken: frozenset[tuple[int, int]] = frozenset()
    traps: frozenset[tuple[int, int]] = frozenset()
    mirrored: bool = False

    def initial(self) -> tuple[int, int]:
        return (0, 0)

    def steps(self, state: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        x, y = state
        if state not in self.traps:
            if x < self.size:
                yield "right", (x + 1, y)
            if y < self.size:
                yield "up", (x, y + 1)
        yield "fault", (0, 0)

    def violation(self, state: tuple[int, int]) -> str | None:
        return "broken" if state in self.broken else None

    def same(self, state: tuple[int, int]) -> Hashable:
        return frozenset(state) if self.mirrored else state

    def name(self, step: str) -> str:
        return step

    def is_fault(self, step: str) -> bool:
        return step == "fault"

    def is_goal(self, state: tuple[int, int]) -> bool:
        return state == (self.size, self.size)


def test_every_state_is_found_once() -> None:
    found = search(Walk())
    assert (found.states, found.histories, sorted(found.names)) == (16, {}, ["fault", "right", "up"])


def test_states_that_are_the_same_count_as_one() -> None:
    assert search(Walk(mirrored=True)).states == 10


@pytest.mark.parametrize("stop", [True, False])
def test_a_violation_is_told_by_a_shortest_history(stop: bool) -> None:
    found = search(Walk(broken=frozenset({(3, 2), (1, 2)})), stop=stop)
    history = found.histories["broken"]
    assert sorted(step for step, _ in history) == ["right", "up", "up"]
    assert [sum(state) for _, state in history] == [1, 2, 3]
    assert history[-1][1] == (1, 2)


def test_a_state_with_a_violation_is_not_followed() -> None:
    assert search(Walk(broken=frozenset({(0, 1), (1, 0)}))).states == 3


def test_stop_ends_the_search() -> None:
    walk = Walk(size=50, broken=frozenset({(1, 0)}))
    assert search(walk, stop=True).states < 10
    assert search(walk).states > 2_000


def test_a_state_from_which_only_a_fault_leads_to_the_goal_is_stuck() -> None:
    """From (0, 2) every way leads into one of two traps."""
    found = search(Walk(traps=frozenset({(2, 2), (1, 3)})))
    assert found.histories == {STUCK: [("up", (0, 1)), ("up", (0, 2))]}


def test_no_end_is_an_error() -> None:
    with pytest.raises(OverflowError, match="more than 100 states"):
        search(Walk(size=50), states_max=100)
