"""The design of a change of the number of lanes, before it is built: two relays that disagree about the layout.

There is an old lane with every key and there are new ones with a key each. A relay may start on any of them at any
moment. Before it works on a new lane it takes the old one over, seals it there, and settles its receipts; on a sealed
lane nobody publishes. There is no read-ahead here: ``tests.model.pump`` is about that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tests.model.promises import Seen, violation
from tests.model.state import NOTHING, RELAYS, Batch, Receipts, Row, Step, named, without

OLD = -1
"""The number of the old lane; the new ones count from 0 and have the messages of that key."""


class LaneAtBroker(NamedTuple):
    """``owner`` is the relay that took the lane over last, None where its handoff is gone."""

    owner: int | None = None
    receipts: Receipts = ()
    sealed: bool = False


Phase = Literal["away", "fenced old", "sealed old", "informed of old", "settled old", "fenced", "informed", "working"]


class Worker(NamedTuple):
    """A relay on its way to ``lane``, or at work on it. ``sent`` is how far a publish of ``batch`` has come."""

    phase: Phase = "away"
    lane: int = OLD
    receipts: Receipts = ()
    batch: Batch = NOTHING
    sent: Literal["", "asked", "taken"] = ""
    connected: bool = True


AWAY = Worker()


class Plant(NamedTuple):
    """Rows, committed messages and the next position of the database; the same of its copy; what readers see."""

    rows: Batch = NOTHING
    committed: frozenset[int] = frozenset()
    next_position: int = 1
    added: int = 0
    copy: tuple[Batch, frozenset[int], int] | None = None
    fell_back: bool = False
    published: tuple[int, ...] = ()
    old: LaneAtBroker = LaneAtBroker()
    new: tuple[LaneAtBroker, ...] = ()
    relays: tuple[Worker, Worker] = (AWAY, AWAY)

    def lane(self, number: int) -> LaneAtBroker:
        return self.old if number == OLD else self.new[number]

    def with_lane(self, number: int, lane: LaneAtBroker) -> Plant:
        if number == OLD:
            return self._replace(old=lane)
        return self._replace(new=(*self.new[:number], lane, *self.new[number + 1 :]))

    def with_relay(self, number: int, relay: Worker) -> Plant:
        first, second = self.relays
        return self._replace(relays=(relay, second) if number == 0 else (first, relay))


Move = tuple[Step, Plant]


@dataclass(frozen=True, slots=True)
class LaneRules:
    """As designed; each rule can be taken away by its name."""

    seal: bool = True
    under_the_fence: bool = True
    respect: bool = True
    receipts_after_seal: bool = True
    settle_old: bool = True
    settle_old_again: bool = True


AS_DESIGNED = LaneRules()


@dataclass(frozen=True, slots=True)
class LaneScope:
    """``new`` counts new lanes, and keys: message m has key m % new. ``falls_back``: the database may."""

    messages: int = 2
    new: int = 1
    falls_back: bool = False


@dataclass(frozen=True, slots=True)
class Lanes:
    """A ``tests.model.search.Model``."""

    scope: LaneScope
    rules: LaneRules = AS_DESIGNED

    def without(self, rule: str) -> Lanes:
        """The model without one of its rules."""
        return replace(self, rules=replace(self.rules, **{rule: False}))

    def initial(self) -> Plant:
        return Plant(new=(LaneAtBroker(),) * self.scope.new)

    def steps(self, plant: Plant) -> Iterator[Move]:
        yield from self._database(plant)
        for number, relay in enumerate(plant.relays):
            yield from self._beginning(plant, number, relay)
            yield from self._working(plant, number, relay)
            yield from self._breaking(plant, number, relay)

    # -- the database --------------------------------------------------------------------------------------------------

    def _database(self, plant: Plant) -> Iterator[Move]:
        if plant.added < self.scope.messages:
            row = Row(plant.next_position, plant.added + 1)
            yield (
                Step("database", "committed:", (row,)),
                plant._replace(
                    rows=(*plant.rows, row),
                    committed=plant.committed | {row.message},
                    next_position=row.position + 1,
                    added=row.message,
                ),
            )
        if self.scope.falls_back and not plant.fell_back:
            yield self._falling_back(plant)

    def _falling_back(self, plant: Plant) -> Move:
        if plant.copy is None:
            copy = (plant.rows, plant.committed, plant.next_position)
            return Step("database", "!its copy stops following"), plant._replace(copy=copy)
        rows, committed, next_position = plant.copy
        first, second = (relay._replace(connected=False) for relay in plant.relays)
        back = plant._replace(rows=rows, committed=committed, next_position=next_position, copy=None, fell_back=True)
        return Step("database", "!falls back to its copy, with the rows", rows), back._replace(relays=(first, second))

    # -- to a lane -----------------------------------------------------------------------------------------------------

    def _beginning(self, plant: Plant, number: int, relay: Worker) -> Iterator[Move]:
        who = RELAYS[number]
        if relay.phase == "away":
            yield self._fencing(plant, number, Worker("fenced"), OLD, "takes over the old lane: fences")
            for lane in range(self.scope.new):
                aiming = Worker("fenced old", lane)
                yield self._fencing(plant, number, aiming, OLD, f"takes over the old lane for lane {lane}: fences")
        elif relay.phase == "fenced old":
            yield self._sealing(plant, number, relay)
        elif relay.phase == "sealed old":
            receipts = relay.receipts if not self.rules.receipts_after_seal else plant.old.receipts
            informed = relay._replace(phase="informed of old", receipts=receipts)
            yield Step(who, "reads the old lane's receipts:", named(receipts)), plant.with_relay(number, informed)
        elif relay.phase == "informed of old":
            rows = named(relay.receipts) if self.rules.settle_old else NOTHING
            after = plant._replace(rows=without(plant.rows, rows))
            settled = relay._replace(phase="settled old", receipts=(), connected=True)
            yield Step(who, "settles what they name:", rows), after.with_relay(number, settled)
        elif relay.phase == "settled old":
            fenced = relay._replace(phase="fenced")
            yield self._fencing(plant, number, fenced, relay.lane, f"takes over lane {relay.lane}: fences")
        elif relay.phase == "fenced":
            yield self._learning(plant, number, relay)
        elif relay.phase == "informed" and not relay.connected:
            yield self._connecting(plant, number, relay)
        elif relay.phase == "informed":
            rows = named(relay.receipts)
            begun = Worker("working", relay.lane, relay.receipts)
            after = plant._replace(rows=without(plant.rows, rows)).with_relay(number, begun)
            yield Step(who, "settles what they name:", rows), after

    def _fencing(self, plant: Plant, number: int, relay: Worker, lane: int, does: str) -> Move:
        if relay.phase == "fenced old" and not self.rules.receipts_after_seal:
            relay = relay._replace(receipts=plant.old.receipts)
        fenced = plant.with_lane(lane, plant.lane(lane)._replace(owner=number))
        return Step(RELAYS[number], does), fenced.with_relay(number, relay)

    def _sealing(self, plant: Plant, number: int, relay: Worker) -> Move:
        """The seal is a last receipt: the broker takes it from the lane's owner only."""
        sealed = relay._replace(phase="sealed old")
        if plant.old.sealed or not self.rules.seal:
            return Step(RELAYS[number], "goes on"), plant.with_relay(number, sealed)
        if plant.old.owner != number and self.rules.under_the_fence:
            return Step("broker", "refuses the seal, since its sender is fenced"), plant.with_relay(number, AWAY)
        after = plant._replace(old=plant.old._replace(sealed=True))
        return Step(RELAYS[number], "seals the old lane"), after.with_relay(number, sealed)

    def _learning(self, plant: Plant, number: int, relay: Worker) -> Move:
        """Read the receipts of the lane, and whether it is sealed."""
        lane = plant.lane(relay.lane)
        if lane.sealed and self.rules.respect:
            return Step(RELAYS[number], "sees the seal and leaves"), _left(plant, number, relay)
        informed = relay._replace(phase="informed", receipts=lane.receipts)
        return Step(RELAYS[number], "reads the receipts:", named(lane.receipts)), plant.with_relay(number, informed)

    # -- at work -------------------------------------------------------------------------------------------------------

    def _working(self, plant: Plant, number: int, relay: Worker) -> Iterator[Move]:
        who, lane = RELAYS[number], plant.lane(relay.lane)
        if relay.phase != "working":
            return
        if relay.sent == "asked" and lane.owner != number:
            yield Step("broker", "refuses, since its sender is fenced:", relay.batch), plant.with_relay(number, AWAY)
        elif relay.sent == "asked":
            taken = lane._replace(receipts=(*lane.receipts, relay.batch))
            published = (*plant.published, *[row.message for row in relay.batch])
            after = plant._replace(published=published).with_lane(relay.lane, taken)
            yield Step("broker", "takes", relay.batch), after.with_relay(number, relay._replace(sent="taken"))
        elif not relay.connected:
            yield self._connecting(plant, number, relay)
        elif relay.sent == "taken":
            after = plant._replace(rows=without(plant.rows, relay.batch))
            done = relay._replace(batch=NOTHING, sent="", receipts=lane.receipts)
            yield Step(who, "settles", relay.batch), after.with_relay(number, done)
        elif relay.batch:
            yield Step(who, "publishes", relay.batch), plant.with_relay(number, relay._replace(sent="asked"))
        elif rows := tuple([row for row in plant.rows if self._belongs(row, relay.lane)][:1]):
            yield Step(who, "reads", rows), plant.with_relay(number, relay._replace(batch=rows))

    def _belongs(self, row: Row, lane: int) -> bool:
        return lane in (OLD, row.message % self.scope.new)

    def _connecting(self, plant: Plant, number: int, relay: Worker) -> Move:
        """A new session begins with the receipts, those of the sealed lane too."""
        if relay.lane != OLD and self.rules.settle_old_again:
            again = Worker("sealed old", relay.lane)
        else:
            again = Worker("informed", relay.lane, plant.lane(relay.lane).receipts)
        return Step(RELAYS[number], "connects again"), plant.with_relay(number, again)

    # -- what breaks ---------------------------------------------------------------------------------------------------

    def _breaking(self, plant: Plant, number: int, relay: Worker) -> Iterator[Move]:
        if relay != AWAY:
            yield Step(RELAYS[number], "crashes, or leaves"), _left(plant, number, relay)

    # -- what must hold ------------------------------------------------------------------------------------------------

    def seen(self, plant: Plant) -> Seen:
        """What the promises are about."""
        return Seen(plant.published, plant.committed, [row.message for row in plant.rows], self.scope.new)

    def violation(self, plant: Plant) -> str | None:
        return violation(self.seen(plant))

    def same(self, plant: Plant) -> Hashable:
        lanes = (plant.old, *plant.new)
        relays = frozenset([(relay, *[lane.owner == n for lane in lanes]) for n, relay in enumerate(plant.relays)])
        return (*plant[:7], relays, *[(lane.receipts, lane.sealed) for lane in lanes])

    def name(self, step: Step) -> str:
        return step.does

    def is_fault(self, step: Step) -> bool:
        return step.does.startswith("!")

    def is_goal(self, plant: Plant) -> bool:
        return not plant.rows and plant.added == self.scope.messages


def _left(plant: Plant, number: int, relay: Worker) -> Plant:
    """The relay is gone, and its handoffs with it; a request that the broker has not taken does not arrive later."""
    for lane in (OLD, relay.lane):
        if plant.lane(lane).owner == number:
            plant = plant.with_lane(lane, plant.lane(lane)._replace(owner=None))
    return plant.with_relay(number, AWAY)
