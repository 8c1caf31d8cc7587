"""What a relay does all the time: read a batch ahead, publish the one before it, settle the one before that."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.rules import Rules, Scope
from tests.model.state import NOTHING, RELAYS, Batch, Database, Move, Relay, Step, World, named, without


def pumping(world: World, number: int, rules: Rules, scope: Scope) -> Iterator[Move]:
    """The next steps of a relay that has settled what the receipts name."""
    relay = world.relays[number]
    if relay.ahead and not relay.publishing and (rules.acknowledged or not relay.settling):
        yield _asking(world, number, relay, rules, scope)
    if relay.sent == "taken" and not (relay.settling and relay.connected):
        yield _hearing(world, number, relay, rules, scope)
    if relay.waits:
        yield Step(RELAYS[number], "has waited"), world.with_relay(number, relay._replace(waits=False))
    if relay.connected:
        if relay.settling:
            yield _settling(world, number, relay, rules)
        if relay.reading is not None:
            yield _returning(world, number, relay, rules, scope)
        elif not relay.ahead:
            yield from _reading(world, number, relay, rules, scope)


# -- reading -----------------------------------------------------------------------------------------------------------


def _reading(world: World, number: int, relay: Relay, rules: Rules, scope: Scope) -> Iterator[Move]:
    """The next page of the round, or, where that is empty, the first one of the next round."""
    above = relay.after if rules.from_the_bottom else _highest(world)
    rows = tuple([row for row in world.database.rows if row.position > above][: scope.batch])
    if not rows:
        if relay.after:
            yield from _reading(world, number, relay._replace(after=0, seen=()), rules, scope)
        return
    reading = relay._replace(
        reading=rows,
        above=relay.after,
        after=rows[-1].position if len(rows) == scope.batch else 0,
        seen=tuple(sorted({*relay.seen, *[row.position for row in rows]})),
        passed_over=relay.passed_over and relay.after > 0,
        failed=relay.failed and not rules.only_earlier,
    )
    if scope.slow_reads:
        yield Step(RELAYS[number], "asks for rows, and will get", rows), world.with_relay(number, reading)
    else:
        yield _returning(world, number, reading, rules, scope)


def _highest(world: World) -> int:
    """The highest position that is published."""
    return max([row.position for row in named(world.broker.receipts)], default=0)


def _returning(world: World, number: int, relay: Relay, rules: Rules, scope: Scope) -> Move:
    """The answer of a read: what of it may be sent. Nothing, where something has appeared below it in this round."""
    returned = relay._replace(reading=None, above=0, seen=relay.seen if relay.after else ())
    if rules.nothing_below and _has_new_below(world, relay):
        again = returned._replace(after=0, seen=())
        return Step(RELAYS[number], "finds a row below, and begins at the bottom"), world.with_relay(number, again)
    rows = relay.reading or NOTHING
    if rules.in_hand:
        rows = without(rows, (*relay.publishing, *relay.settling, *relay.set_aside))
    passed_over = relay.passed_over
    if relay.waits or passed_over:
        free = tuple([row for row in rows if not scope.is_held_back(row.message)])
        passed_over = rules.passed_over and (passed_over or len(free) < len(rows))
        rows = free
    read = returned._replace(ahead=rows, passed_over=passed_over)
    return Step(RELAYS[number], "reads", rows), world.with_relay(number, read)


def _has_new_below(world: World, relay: Relay) -> bool:
    return any(row.position <= relay.above and row.position not in relay.seen for row in world.database.rows)


# -- publishing and settling -------------------------------------------------------------------------------------------


def _asking(world: World, number: int, relay: Relay, rules: Rules, scope: Scope) -> Move:
    """Hand the batch that was read ahead to the broker, without the key that failed meanwhile."""
    batch = relay.ahead
    if relay.failed and rules.confirm:
        batch = tuple([row for row in batch if not scope.is_held_back(row.message)])
    asked = relay._replace(
        ahead=NOTHING,
        publishing=batch,
        sent="asked" if batch else "",
        settling=relay.settling if rules.acknowledged else batch,
        failed=False,
    )
    step = Step(RELAYS[number], "publishes", batch) if batch else Step(RELAYS[number], "leaves out", relay.ahead)
    return step, world.with_relay(number, asked)


def _hearing(world: World, number: int, relay: Relay, rules: Rules, scope: Scope) -> Move:
    """The answer of a publish. The batch before it must be settled first; where that fails, the session is over."""
    batch = relay.publishing
    kept = scope.kept if rules.enough_receipts else scope.kept - 1
    heard = relay.let_go(relay.set_aside, rules.let_go)._replace(
        publishing=NOTHING,
        sent="",
        receipts=(*relay.receipts, batch)[-kept:],
        settling=batch if rules.acknowledged else relay.settling,
    )
    after = heard.without_session() if relay.settling and not relay.connected else heard
    return Step(RELAYS[number], "hears that the broker has", batch), world.with_relay(number, after)


def _settling(world: World, number: int, relay: Relay, rules: Rules) -> Move:
    done = relay.let_go(relay.settling, rules.let_go)
    database = settled(world.database, relay.settling, rules)
    return Step(RELAYS[number], "settles", relay.settling), world.with_relay(number, done, database=database)


def settled(database: Database, batch: Batch, rules: Rules) -> Database:
    """The database without the rows of a batch."""
    if rules.position_and_id:
        return database._replace(rows=without(database.rows, batch))
    positions = {row.position for row in batch}
    return database._replace(rows=tuple([row for row in database.rows if row.position not in positions]))
