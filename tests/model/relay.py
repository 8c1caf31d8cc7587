"""How a relay begins, and what may become of it: take over, settle what the receipts name; crash, lose a connection.

A pause needs no step of its own: it is a relay that does nothing while others do.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.broker import unanswered
from tests.model.pump import pumping, settled
from tests.model.rules import Rules, Scope
from tests.model.state import AWAY, NOTHING, RELAYS, Broker, Move, Relay, Step, World, named


def working(world: World, number: int, rules: Rules, scope: Scope) -> Iterator[Move]:
    """The next steps of one relay."""
    relay = world.relays[number]
    if relay.phase == "working":
        yield from pumping(world, number, rules, scope)
        if not relay.connected and not (relay.sent and rules.in_flight_first):
            yield _connecting(world, number, relay, rules)
    else:
        yield _beginning(world, number, relay, rules)
    if relay != AWAY:
        yield from _breaking(world, number, relay, rules, scope)


# -- the beginning -----------------------------------------------------------------------------------------------------


def _beginning(world: World, number: int, relay: Relay, rules: Rules) -> Move:
    """Fence the others, read the receipts, settle what they name."""
    if relay.phase == "informed":
        return _settling_receipts(world, number, relay, rules)
    following = relay._replace(phase="fenced" if relay.phase == "away" else "informed")
    if (relay.phase == "away") == rules.fence_first:
        fenced = world.broker._replace(owner=number, in_the_air=NOTHING)
        return Step(RELAYS[number], "takes over: fences"), world.with_relay(number, following, broker=fenced)
    receipts = world.broker.receipts
    step = Step(RELAYS[number], "reads the receipts:", named(receipts))
    return step, world.with_relay(number, following._replace(receipts=receipts))


def _settling_receipts(world: World, number: int, relay: Relay, rules: Rules) -> Move:
    ahead = NOTHING if rules.nothing_ahead else relay.ahead
    begun = Relay(phase="working", receipts=relay.receipts, connected=True, ahead=ahead)
    if not rules.receipts:
        return Step(RELAYS[number], "settles nothing"), world.with_relay(number, begun)
    rows = named(relay.receipts)
    database = settled(world.database, rows, rules)
    if rules.reserve and rows:
        after = max(row.position for row in rows) + 1
        database = database._replace(next_position=max(database.next_position, after))
    step = Step(RELAYS[number], "settles what the receipts name:", rows)
    return step, world.with_relay(number, begun, database=database)


def _connecting(world: World, number: int, relay: Relay, rules: Rules) -> Move:
    """A new session begins with the receipts."""
    ahead = NOTHING if rules.nothing_ahead else relay.ahead
    if rules.receipts_again:
        again = Relay(phase="informed", receipts=relay.receipts, ahead=ahead)
    else:
        again = Relay(phase="working", receipts=relay.receipts, connected=True, ahead=ahead)
    broker = _with_request_in_the_air(world.broker, number, relay)
    return Step(RELAYS[number], "connects again"), world.with_relay(number, again, broker=broker)


# -- what breaks -------------------------------------------------------------------------------------------------------


def _breaking(world: World, number: int, relay: Relay, rules: Rules, scope: Scope) -> Iterator[Move]:
    """It crashes, or loses a connection: to the broker, which voids the handoff, or to the database."""
    who = RELAYS[number]
    gone = _with_request_in_the_air(world.broker, number, relay)
    if gone.owner == number:
        gone = gone._replace(owner=None)
    yield Step(who, "!crashes"), world.with_relay(number, AWAY, broker=gone)
    if relay.sent:
        broker = gone if rules.void else world.broker
        yield Step(who, "!gets no answer"), world.with_relay(number, unanswered(relay, rules), broker=broker)
    if scope.cuts and relay.connected:
        yield Step(who, "!loses its session"), world.with_relay(number, relay._replace(connected=False))


def _with_request_in_the_air(broker: Broker, number: int, relay: Relay) -> Broker:
    """Nobody waits for what was asked; under the present fence it may still arrive."""
    if relay.sent == "asked" and broker.owner == number:
        return broker._replace(in_the_air=relay.publishing)
    return broker
