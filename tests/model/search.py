"""An exhaustive search: every state that can be reached, breadth first, so that what breaks is found by its shortest
history.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

S = TypeVar("S")
L = TypeVar("L")

STUCK = "stuck"
"""The violation of a state from which the goal cannot be reached any more."""


class Model(Protocol[S, L]):
    """What is searched. ``L`` is what a step is called."""

    def initial(self) -> S:
        """Where everything begins."""
        ...

    def steps(self, state: S) -> Iterable[tuple[L, S]]:
        """Everything that may happen next."""
        ...

    def violation(self, state: S) -> str | None:
        """What is broken in this state."""
        ...

    def same(self, state: S) -> Hashable:
        """A value that is equal for states that count as one."""
        ...

    def name(self, step: L) -> str:
        """What kind of step this is."""
        ...

    def is_fault(self, step: L) -> bool:
        """Whether the step is one that need not happen again, once faults stop."""
        ...

    def is_goal(self, state: S) -> bool:
        """Whether all is done. It must remain possible to come to such a state without any fault."""
        ...


@dataclass(frozen=True, slots=True)
class Found(Generic[S, L]):
    """What a search met. ``histories`` holds a shortest way to each kind of violation: what happened, and the state
    after it. ``names`` are the kinds of steps that occurred.
    """

    states: int
    histories: dict[str, list[tuple[L, S]]]
    names: frozenset[str]


def search(model: Model[S, L], *, stop: bool = False, states_max: int = 3_000_000) -> Found[S, L]:
    """Follow every step from every state once. A state with a violation is not followed further.

    With ``stop`` the first violation ends the search; whether the goal can be reached is then not looked at. Raises
    OverflowError where there are more than ``states_max`` states.
    """
    with _no_collector():
        return _Search(model).run(stop=stop, states_max=states_max)


class _Search(Generic[S, L]):
    """States are numbered in the order in which they are found, so that the nearest come first."""

    def __init__(self, model: Model[S, L]) -> None:
        self._model = model
        self._numbers: dict[Hashable, int] = {}
        self._states: list[S] = []
        self._ways: list[tuple[int, L] | None] = []
        self._before: list[list[int]] = []  # which states lead to this one without a fault
        self._goals: list[int] = []
        self._broken: dict[str, int] = {}
        self._over: set[int] = set()  # states that are not followed
        self._names: set[str] = set()
        start = model.initial()
        self._add(model.same(start), start, None)

    def run(self, *, stop: bool, states_max: int) -> Found[S, L]:
        number = 0
        while number < len(self._states) and not (stop and self._broken):
            self._follow(number)
            number += 1
            if len(self._states) > states_max:
                raise OverflowError(f"more than {states_max:,} states")
        if not stop:
            self._find_stuck()
        histories = {kind: self._history(number) for kind, number in self._broken.items()}
        return Found(len(self._states), histories, frozenset(self._names))

    def _follow(self, origin: int) -> None:
        model, state = self._model, self._states[origin]
        if origin in self._over:
            return
        for step, following in model.steps(state):
            self._names.add(model.name(step))
            key = model.same(following)
            number = self._numbers.get(key)
            if number is None:
                number = self._add(key, following, (origin, step))
            if not model.is_fault(step):
                self._before[number].append(origin)

    def _add(self, key: Hashable, state: S, way: tuple[int, L] | None) -> int:
        number = self._numbers[key] = len(self._states)
        self._states.append(state)
        self._ways.append(way)
        self._before.append([])
        kind = self._model.violation(state)
        if kind is not None:
            self._broken.setdefault(kind, number)
            self._over.add(number)
        if kind is not None or self._model.is_goal(state):  # what is broken is told already, and not stuck besides
            self._goals.append(number)
        return number

    def _find_stuck(self) -> None:
        """Go back from the goals; the nearest state that is not met is stuck."""
        good = set(self._goals)
        queue = deque(good)
        while queue:
            fresh = [number for number in self._before[queue.popleft()] if number not in good]
            good.update(fresh)
            queue.extend(fresh)
        stuck = next((number for number in range(len(self._states)) if number not in good), None)
        if stuck is not None:
            self._broken[STUCK] = stuck

    def _history(self, number: int) -> list[tuple[L, S]]:
        history: list[tuple[L, S]] = []
        while (way := self._ways[number]) is not None:
            state = self._states[number]
            number, step = way
            history.append((step, state))
        return history[::-1]


@contextmanager
def _no_collector() -> Iterator[None]:
    """States hold no cycles, and there are very many: the collector would walk through all of them in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
