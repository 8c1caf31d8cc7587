"""What the broker does with a request: take a batch and its receipt, both at once, or refuse it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.rules import Rules, Scope
from tests.model.state import AWAY, NOTHING, Batch, Broker, Move, Relay, Step, World, without


def answering(world: World, rules: Rules, scope: Scope) -> Iterator[Move]:
    """The broker's next step with each request that it has."""
    broker = world.broker
    if broker.in_the_air:
        taken = _taken(broker._replace(in_the_air=NOTHING), broker.in_the_air, rules, scope)
        yield Step("broker", "!takes the late request:", broker.in_the_air), world._replace(broker=taken)
    for number, relay in enumerate(world.relays):
        if relay.sent == "asked":
            yield from _asked(world, number, relay, rules, scope)
        elif relay.sent == "half":
            after = _receipted(broker, relay.publishing, rules, scope)
            step = Step("broker", "takes the receipt of", relay.publishing)
            yield step, world.with_relay(number, relay._replace(sent="taken"), broker=after)


def _asked(world: World, number: int, relay: Relay, rules: Rules, scope: Scope) -> Iterator[Move]:
    broker, batch = world.broker, relay.publishing
    if rules.fence and broker.owner != number:
        yield Step("broker", "refuses, since its sender is fenced:", batch), world.with_relay(number, AWAY)
        return
    heard = relay._replace(sent="taken" if rules.together else "half")
    yield Step("broker", "takes", batch), world.with_relay(number, heard, broker=_taken(broker, batch, rules, scope))
    refused = tuple([row for row in batch if row.message == scope.refused])
    if refused:
        yield Step("broker", "!does not take", refused), world.with_relay(number, _set_aside(relay, rules, scope))


def _taken(broker: Broker, batch: Batch, rules: Rules, scope: Scope) -> Broker:
    """The broker after it took a batch, with its receipt or without."""
    after = broker._replace(published=(*broker.published, *[row.message for row in batch]))
    return _receipted(after, batch, rules, scope) if rules.together else after


def _receipted(broker: Broker, batch: Batch, rules: Rules, scope: Scope) -> Broker:
    kept = scope.kept if rules.enough_receipts else scope.kept - 1
    return broker._replace(receipts=(*broker.receipts, batch)[-kept:])


def restarting(world: World, rules: Rules) -> Iterator[Move]:
    """Connections are lost, and with them every answer that is under way; what was taken stays."""
    if world.broker.in_the_air or any(relay.sent for relay in world.relays):
        owner = world.broker.owner
        keeps = owner is None or not world.relays[owner].sent
        broker = world.broker._replace(owner=owner if keeps else None, in_the_air=NOTHING)
        first, second = (unanswered(relay, rules) if relay.sent else relay for relay in world.relays)
        yield Step("broker", "!restarts"), world._replace(broker=broker, relays=(first, second))


def unanswered(relay: Relay, rules: Rules) -> Relay:
    """The relay when nobody knows what became of its request: the handoff is void, and the next one tells."""
    if not rules.void:
        return relay._replace(publishing=NOTHING, sent="", reading=None, ahead=relay.publishing)
    return AWAY if rules.nothing_ahead else Relay(ahead=relay.ahead)


def _set_aside(relay: Relay, rules: Rules, scope: Scope) -> Relay:
    """The relay after a refusal: the message's key waits, the rest of the batch is published at once."""
    if not relay.connected:  # the attempt cannot be written down
        return relay.without_session()
    rest = tuple([row for row in relay.publishing if not _stays_behind(row.message, rules, scope)])
    left = without(relay.publishing, rest)
    waiting = relay._replace(
        publishing=rest,
        sent="asked" if rest else "",
        set_aside=NOTHING if rules.left_behind else left,
        waits=rules.key_waits,
        passed_over=rules.key_waits and rules.passed_over,
        failed=rules.key_waits,
    )
    return waiting.let_go(left, rules.let_go) if rules.left_behind or not rest else waiting


def _stays_behind(message: int, rules: Rules, scope: Scope) -> bool:
    return scope.is_held_back(message) if rules.key_waits else message == scope.refused
