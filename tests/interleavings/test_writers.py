"""Two writers, every order of their statements: for one entity, position order = commit order = version order."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import comb
from typing import Any, cast

import pytest
from sqlalchemy.engine import Dialect

from fencepost.errors import Contention, RetryError, VersionConflict
from fencepost.message import Message
from fencepost.sql.adding import OutboxWriter
from fencepost.sql.outbox import AddStatements, Versions
from fencepost.testing.interleave import Check, History, Party, Side, step
from tests.interleavings.place import SIDES, Place, Unlucky, about

BOTH = pytest.mark.parametrize("versions", ["counter", "position"])


ORDERS = {
    ("sqlite", "counter"): (5, 10, 8, comb(10, 5) - 10),
    ("sqlite", "position"): (4, 8, 6, comb(8, 4) - 8),
    ("postgresql", "counter"): (3, 14, 6, comb(6, 3) - 14),
    ("postgresql", "position"): (3, 14, 6, comb(6, 3) - 14),
    ("mysql", "counter"): (4, 24, 14, comb(8, 4) - 24),
}
"""Two writers of one entity: steps of each, orders, those in which one waited, those that a lock made impossible."""


def writer(
    side: Side,
    *batches: list[Message],
    versions: Versions = "counter",
    begin: str | None = None,
    reads: bool = False,
    works: bool = False,
    fails: bool = False,
    kind: type[OutboxWriter] = OutboxWriter,
) -> Party[Place]:
    """One transaction that adds these batches. Where told so, it reads or writes something before, or rolls back.

    Returns what it committed.
    """

    async def party(place: Place) -> list[Message]:
        added: list[Message] = []
        application = place.applications[side]
        with suppress(Unlucky):
            async with application.transaction(begin):
                if reads:
                    await application.say("read", f"SELECT count(*) FROM {place.options.prefix}outbox")
                if works:
                    await application.work()
                for batch in batches:
                    added += await application.add(*map(anew, batch), versions=versions, kind=kind)
                if fails:
                    raise Unlucky
        return [] if fails else added

    return party


def anew(one: Message) -> Message:
    """The same, with an id of its own for this play."""
    return replace(one, id=about(None).id)


def keys(*names: str) -> list[Message]:
    return [about(name) for name in names]


def committed(history: History) -> list[Message]:
    """What both parties committed, in the order in which they did."""
    left, right = cast("list[Message]", history.left.result), cast("list[Message]", history.right.result)
    added = {"L": left or [], "R": right or []}
    return [message for side in history.done("commit") for message in added[side]]


async def in_order(place: Place, history: History) -> None:
    """What every order must lead to: all that was committed, each entity's in the order of the commits."""
    expected = committed(history)
    rows = await place.outbox("seq, id, key, coalesce(version, seq)")
    assert {row[1] for row in rows} == {message.id for message in expected}
    for key in {message.key for message in expected}:
        its = [(id_, version) for _, id_, of, version in rows if of == key]
        assert its == [(message.id, message.version) for message in expected if message.key == key]
        assert [version for _, version in its] == sorted({version for _, version in its})


async def counted(place: Place, history: History) -> None:
    """Besides: no version is lost, and none is left out where somebody rolled back."""
    await in_order(place, history)
    await no_gaps(place, history)


async def no_gaps(place: Place, _: History) -> None:
    """Each entity is counted 1, 2, 3, ..."""
    rows = await place.outbox()
    for key in {row[2] for row in rows}:
        versions = [row[3] for row in rows if row[2] == key]
        assert versions == list(range(1, len(versions) + 1))


def supported(place: Place, versions: Versions) -> Versions:
    if place.name == "mysql" and versions == "position":
        pytest.skip("MariaDB refuses versions by position (tests/drivers)")
    return versions


def check_of(versions: Versions) -> Check[Place]:
    return counted if versions == "counter" else in_order


# ------------------------------------------------------------------------------------------------------------ the rules


@BOTH
@pytest.mark.parametrize("fails", [False, True], ids=["both commit", "one rolls back"])
async def test_two_writers_of_one_entity(place: Place, versions: Versions, fails: bool) -> None:
    """B2, B5: each has its transaction's number before it comes to the entity. PostgreSQL lets the adding wait; SQLite
    lets BEGIN IMMEDIATE wait, so that hardly an order is left.
    """
    report = await place.run(
        writer("L", keys("1"), versions=supported(place, versions), works=True, fails=fails),
        writer("R", keys("1"), versions=versions, works=True),
        check_of(versions),
    )
    steps, *pinned = ORDERS[place.name, versions]
    assert [report.orders, report.waited, report.impossible(steps, steps)] == pinned
    assert report.unseen(steps, steps) == []


@BOTH
async def test_two_messages_each_of_one_entity(place: Place, versions: Versions) -> None:
    """B5: those of a transaction are not mixed with another's."""
    both = [writer(side, keys("1"), keys("1"), versions=supported(place, versions)) for side in SIDES]
    report = await place.run(both[0], both[1], check_of(versions), alike=True)
    assert report.waited > 0


async def test_writers_of_two_entities_do_not_wait_for_each_other(server_place: Place) -> None:
    two = server_place.name == "postgresql"  # MariaDB takes two statements for each: one message is enough of them
    left, right = ([keys("1"), keys("2")], [keys("3"), keys("4")]) if two else ([keys("1")], [keys("3")])
    report = await server_place.run(writer("L", *left), writer("R", *right), counted)
    assert (report.orders, report.waited) == (20, 0)


@BOTH
async def test_two_entities_in_opposite_order_at_once(place: Place, versions: Versions) -> None:
    """Entities are locked in sorted order: no error is expected, so none may come, a deadlock included."""
    report = await place.run(
        writer("L", keys("1", "2"), versions=supported(place, versions)),
        writer("R", keys("2", "1"), versions=versions),
        check_of(versions),
    )
    assert report.waited > 0


async def test_given_versions_in_opposite_order_at_once(place: Place) -> None:
    """Versions of one's own are written one by one, sorted too."""
    report = await place.run(
        writer("L", [about("1", version=1), about("2", version=1)]),
        writer("R", [about("2", version=2), about("1", version=2)]),
        in_order,
        expected=(VersionConflict,),
    )
    assert report.waited > 0
    refused = [error for history in report.histories for error in history.errors]
    assert refused  # who comes second with the lower version has lost a race
    assert all(isinstance(history.right.error, VersionConflict | None) for history in report.histories)


async def test_two_entities_in_opposite_order_one_by_one(place: Place) -> None:
    """The application's own order of locks may end in a deadlock: one is told to try again, the other one commits."""

    async def one_at_least(place: Place, history: History) -> None:
        await counted(place, history)
        assert len(history.errors) <= 1

    report = await place.run(
        writer("L", keys("1"), keys("2")), writer("R", keys("2"), keys("1")), one_at_least, expected=(RetryError,)
    )
    deadlocks = [error for history in report.histories for error in history.errors]
    assert all(isinstance(error, Contention) for error in deadlocks)
    assert bool(deadlocks) is not place.one_writer


async def test_one_winner_of_a_version(place: Place) -> None:
    """The application's optimistic lock: who comes second is told that he lost a race."""

    async def one_winner(place: Place, history: History) -> None:
        await in_order(place, history)
        assert len(await place.outbox()) == 1

    one = [about("1", version=7)]
    await place.run(writer("L", one), writer("R", one), one_winner, expected=(VersionConflict,), alike=True)


async def test_transactions_that_begin_without_a_lock(sqlite_place: Place) -> None:
    """SQLite's BEGIN: the lock is taken, and waited for, at the first message."""
    both = [writer(side, keys("1"), begin="BEGIN") for side in SIDES]
    report = await sqlite_place.run(both[0], both[1], counted, alike=True)
    assert report.waited > 0


async def test_transactions_that_read_before_they_add(sqlite_place: Place) -> None:
    """Such a one may have to begin again: an error that says so at once, and nothing is lost or written twice."""
    both = [writer(side, keys("1"), begin="BEGIN", reads=True) for side in SIDES]
    report = await sqlite_place.run(both[0], both[1], counted, expected=(RetryError,), alike=True)
    errors = [error for history in report.histories for error in history.errors]
    assert errors
    assert all(isinstance(error, Contention) for error in errors)


# ------------------------------------------------------------------------------------------------------- planted faults


class WithoutLock(OutboxWriter):
    """Inserts, and nothing else."""

    def statements(self, dialect: Dialect) -> AddStatements:
        right = super().statements(dialect)
        return replace(right, drawn=right.keyless, given=right.keyless, entity_drawn=None, entity_given=None)


async def test_a_writer_that_does_not_lock_the_entity_is_caught(postgresql_place: Place) -> None:
    """The first position is drawn, the second one commits. (On SQLite the file's lock hides it.)"""
    both = [writer(side, keys("1"), versions="position", kind=WithoutLock) for side in SIDES]
    with pytest.raises(AssertionError) as caught:
        await postgresql_place.run(both[0], both[1], in_order)
    assert "in the order LRRL" in caught.value.__notes__[0]


async def test_a_writer_that_counts_outside_of_its_transaction_is_caught(place: Place) -> None:
    def counting(side: Side) -> Party[Place]:
        async def party(place: Place) -> list[Message]:
            query = f"SELECT coalesce(max(version), 0) FROM {place.options.prefix}outbox"
            ((last,),) = await step("read", lambda: place.rows(query))
            one = [about("1", version=last + 1)]
            versions: Versions = "counter" if place.name == "mysql" else "position"
            return cast("list[Message]", await writer(side, one, versions=versions, kind=WithoutLock)(place))

        return party

    with pytest.raises(AssertionError, match=r"\[1, 1\]"):
        await place.run(counting("L"), counting("R"), no_gaps)


async def test_a_message_that_is_written_without_being_committed_is_caught(place: Place) -> None:
    """The same rule from its other side: what is said to be committed must stand there."""

    async def says_so(place: Place) -> list[Message]:
        await cast("Any", writer("L", keys("1"), fails=True)(place))
        await step("commit", place.left.end)
        return keys("1")

    with pytest.raises(AssertionError, match="Extra items"):
        await place.run(says_so, writer("R", keys("1")), in_order)
