"""Each checker sees what it is there for: a clean record passes, and each planted fault is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.memory import MemoryDatabase
from fencepost.events import RowsVanished
from fencepost.message import Message, Stored, microseconds
from fencepost.ports import Delivery, Term
from fencepost.testing.simulation.checkers import CHECKERS, check
from fencepost.testing.simulation.record import Record
from fencepost.testing.simulation.scenario import Scenario

ATOMIC = Scenario.of(1, delivery=Delivery.ATOMIC)
PLAIN = Scenario.of(1, delivery=Delivery.PLAIN)
TERM = Term("orders.0", "relay-1:1", 1)


def message() -> Message:
    return Message(id=SYSTEM_CLOCK.new_id(), topic="orders", key="k", payload=b"x", occurred_at=SYSTEM_CLOCK.now())


def stored(m: Message, position: int) -> Stored:
    return Stored(
        position, m.id, m.topic, m.key, 1, m.type, m.payload, m.content_type, None, microseconds(m.occurred_at)
    )


class Story:
    """Two messages that were committed, published and settled in order."""

    def __init__(self) -> None:
        self.record = Record(lambda: 0.0)
        self.database = MemoryDatabase("memory://checked", SYSTEM_CLOCK)
        self.messages = [message(), message()]
        self.rows = [stored(m, n) for n, m in enumerate(self.messages, 1)]
        self.record.given(TERM, 5.0)
        for m, row in zip(self.messages, self.rows, strict=True):
            self.record.commit([m], {m.id: row.position})

    def publish(self, *rows: Stored, term: Term = TERM) -> Story:
        for row in rows:
            self.record.deliver("orders.0", term, row)
        return self

    def check(self, scenario: Scenario = ATOMIC) -> list[str]:
        return check(scenario, self.record, self.database)


def test_a_clean_story_passes() -> None:
    story = Story()
    story.publish(*story.rows).record.settle("relay-1", [(r.position, r.id) for r in story.rows])
    assert story.check() == []


def lost(story: Story) -> None:
    story.publish(story.rows[0])


def unknown(story: Story) -> None:
    story.publish(*story.rows, stored(message(), 3))


def repeated(story: Story) -> None:
    story.publish(*story.rows, story.rows[0])


def reordered(story: Story) -> None:
    story.publish(*reversed(story.rows))


def shared(story: Story) -> None:
    story.publish(*story.rows).record.given(replace(TERM, owner="relay-2:1"), 5.0)


def another_owners(story: Story) -> None:
    story.publish(story.rows[0]).publish(story.rows[1], term=replace(TERM, owner="relay-2:1"))


def early(story: Story) -> None:
    story.record.settle("relay-1", [(1, story.rows[0].id)])
    story.publish(*story.rows)


def alarmed(story: Story) -> None:
    ids = tuple(row.id for row in story.rows)
    story.publish(*story.rows)
    story.record.observe("relay-1", RowsVanished(lane="orders.0", rows=2, first=1, last=2, message_ids=ids))


def waiting(story: Story) -> None:
    story.publish(*story.rows)
    with story.database.transaction() as transaction:
        transaction.add(message())


def defect(story: Story) -> None:
    story.publish(*story.rows).record.defects.append("KeyError")


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        (lost, "lost"),
        (unknown, "published without a commit"),
        (repeated, "repeated"),
        (reordered, "out of order"),
        (shared, "belongs to"),
        (another_owners, "published under token"),
        (early, "settled before it was published"),
        (alarmed, "told to be lost, though published"),
        (waiting, "still waiting"),
        (defect, "defect"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_fault_is_named(plant: Callable[[Story], None], named: str) -> None:
    story = Story()
    plant(story)
    assert any(line.startswith(named) or named in line for line in story.check())


def test_on_a_plain_broker_a_repeat_must_be_marked_and_the_same() -> None:
    story = Story()
    story.publish(*story.rows, story.rows[0]._replace(in_doubt=True))
    assert story.check(PLAIN) == []
    story.publish(story.rows[0])
    assert any("without a mark" in line for line in story.check(PLAIN))
    other = Story()
    other.publish(*other.rows, other.rows[0]._replace(in_doubt=True, payload=b"y"))
    assert any("another content" in line for line in other.check(PLAIN))


def test_what_the_database_forgot_need_not_be_published() -> None:
    story = Story()
    story.publish(story.rows[0])
    story.record.fall_back(1)
    assert story.check() == []


def test_every_checker_says_what_it_promises() -> None:
    assert all(checker.__doc__ for checker in CHECKERS)
