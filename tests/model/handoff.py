"""The model of the handoff: relays that work on one lane without any lease, and everything that may go wrong."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from tests.model.broker import answering, restarting
from tests.model.database import falling_back, writing
from tests.model.promises import Seen, violation
from tests.model.relay import working
from tests.model.rules import AS_DESIGNED, Rules, Scope
from tests.model.state import Move, Step, World, same


@dataclass(frozen=True, slots=True)
class Handoff:
    """A ``tests.model.search.Model``."""

    scope: Scope
    rules: Rules = AS_DESIGNED

    def without(self, rule: str) -> Handoff:
        """The model without one of its rules."""
        return replace(self, rules=replace(self.rules, **{rule: False}))

    def initial(self) -> World:
        return World()

    def steps(self, world: World) -> Iterator[Move]:
        yield from writing(world, self.rules, self.scope)
        yield from falling_back(world, self.scope)
        yield from answering(world, self.rules, self.scope)
        yield from restarting(world, self.rules)
        for number in range(self.scope.relays):
            yield from working(world, number, self.rules, self.scope)

    def seen(self, world: World) -> Seen:
        """What the promises are about."""
        rows, _, committed, _ = world.database
        return Seen(world.broker.published, committed, [row.message for row in rows], self.scope.keys)

    def violation(self, world: World) -> str | None:
        return violation(self.seen(world))

    def same(self, world: World) -> Hashable:
        return same(world)

    def name(self, step: Step) -> str:
        return step.does

    def is_fault(self, step: Step) -> bool:
        return step.does.startswith("!")

    def is_goal(self, world: World) -> bool:
        """Everything is published and settled."""
        return not world.database.rows and not world.database.open and world.added == self.scope.messages
