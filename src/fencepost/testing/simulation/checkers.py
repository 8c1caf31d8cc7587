"""The judges of a history. Each gives one line per violation; what it promises is in its docstring."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from fencepost.databases.memory import MemoryDatabase
from fencepost.ports import Delivery
from fencepost.testing.simulation.record import Record
from fencepost.testing.simulation.scenario import BAD, Scenario

Checker = Callable[[Scenario, Record, MemoryDatabase], Iterator[str]]


def lost(_: Scenario, record: Record, rows: MemoryDatabase) -> Iterator[str]:
    """Every message of the surviving history is published, parked, or still waits."""
    safe = record.seen_ids | {p.message.id for p in rows.parked} | {r.message.id for r in rows.rows}
    for committed in record.committed:
        if committed.message.id not in safe:
            yield f"lost: {committed.message.id} of key {committed.message.key}"


def unknown(_: Scenario, record: Record, __: MemoryDatabase) -> Iterator[str]:
    """Nothing is published that was not committed."""
    known = {c.message.id for c in (*record.committed, *record.forgotten)}
    for delivery in record.deliveries:
        if delivery.message.id not in known:
            yield f"published without a commit: {delivery.message.id}"


def repeated(scenario: Scenario, record: Record, _: MemoryDatabase) -> Iterator[str]:
    """Nothing is published twice; on a plain broker only what is marked, with the same content."""
    by_id = defaultdict(list)
    for delivery in record.deliveries:
        by_id[delivery.message.id].append(delivery.message)
    for message_id, messages in by_id.items():
        if len(messages) == 1:
            continue
        if scenario.delivery is not Delivery.PLAIN:
            yield f"repeated: {message_id} ({len(messages)} times)"
        elif sum(not m.in_doubt for m in messages) > 1:
            yield f"repeated without a mark: {message_id} ({len(messages)} times)"
        if len({m.payload for m in messages}) > 1:
            yield f"repeated with another content: {message_id}"


def reordered(_: Scenario, record: Record, __: MemoryDatabase) -> Iterator[str]:
    """The messages of a key are first seen in the order of their commits (delayed and parked ones have none)."""
    ordered = [c for c in record.committed if c.message.available_at is None]
    numbers = {c.message.id: c for c in ordered if c.message.id not in record.parked_ids}
    last: dict[tuple[str, str], int] = {}
    seen: set[str] = set()
    for delivery in record.deliveries:
        message, committed = delivery.message, numbers.get(delivery.message.id)
        if committed is None or message.key is None or message.id in seen:
            continue
        seen.add(message.id)
        entity = (message.topic, message.key)
        if committed.number < last.get(entity, -1):
            yield f"out of order: {message.id} of key {message.key}"
        last[entity] = max(committed.number, last.get(entity, -1))


def shared(_: Scenario, record: Record, __: MemoryDatabase) -> Iterator[str]:
    """A token has one owner, and what is published under it is that owner's."""
    yield from record.shared_tokens
    for delivery in record.deliveries:
        owner = record.owners.get((delivery.term.name, delivery.term.token))
        if owner != delivery.term.owner:
            yield f"published under token {delivery.term.token} by {delivery.term.owner}, which is {owner}'s"


def outside(_: Scenario, record: Record, __: MemoryDatabase) -> Iterator[str]:
    """Where nothing is fenced, no publish is begun while somebody else has the lease."""
    yield from record.outside


def early(_: Scenario, record: Record, __: MemoryDatabase) -> Iterator[str]:
    """Nothing is settled that no reader can see."""
    for row in record.settled_early:
        yield f"settled before it was published: {row}"


def alarmed(_: Scenario, record: Record, __: MemoryDatabase) -> Iterator[str]:
    """No message that was published is told to be lost (as far as the lease can tell: none was stolen)."""
    if not record.faults["lease stolen"] and not record.faults["lease ended early"]:
        for alarm in record.false_alarms:
            yield f"told to be lost, though published: {alarm}"


def stuck(_: Scenario, record: Record, rows: MemoryDatabase) -> Iterator[str]:
    """Once the trouble is over everything is published or parked, and every relay stops when it is told to."""
    yield from record.stuck
    for row in rows.rows:
        yield f"still waiting: {row.message.id} of {row.message.topic} (attempts {row.message.attempts})"


def parked(_: Scenario, __: Record, rows: MemoryDatabase) -> Iterator[str]:
    """Only what the broker refuses is parked."""
    for row in rows.parked:
        if row.message.topic != BAD:
            yield f"parked without a reason: {row.message.id}: {row.reason}"


def defects(_: Scenario, record: Record, __: MemoryDatabase) -> Iterator[str]:
    """No error comes from anywhere but the four families."""
    for defect in record.defects:
        yield f"defect: {defect}"


CHECKERS: tuple[Checker, ...] = (
    lost,
    unknown,
    repeated,
    reordered,
    shared,
    outside,
    early,
    alarmed,
    stuck,
    parked,
    defects,
)


def check(scenario: Scenario, record: Record, rows: MemoryDatabase) -> list[str]:
    """Every violation."""
    return [line for checker in CHECKERS for line in checker(scenario, record, rows)]
