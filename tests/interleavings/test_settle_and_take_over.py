"""An old owner who is late and the new one, every order of what they do: nobody's row is taken by mistake.

The old owner is the left party. On PostgreSQL a session's calls are stepped statement by statement.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from math import comb
from typing import Any

import pytest

from fencepost.message import Message, Stored
from fencepost.ports import Session
from fencepost.receipt import Receipt, Receipts, digest
from fencepost.testing.interleave import Check, History, Party, Report, Side, step
from tests.interleavings.place import LANE, Place, about

FAR = 10
"""How far beyond the last position the receipts go where the database fell back."""


STEPS = {"sqlite": 5, "postgresql": 6, "mysql": 9}
"""Of a take-over: to reserve takes two statements on PostgreSQL, five on MariaDB."""


@dataclass
class Handover:
    """One play: three rows, ``batch`` as an owner read them, and a session for each of two."""

    place: Place
    sessions: dict[Side, Session]
    batch: list[Stored]
    added: dict[Side, Message] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    settled: int = 0
    reserved: bool | None = None

    async def settle(self, side: Side, rows: Sequence[tuple[Any, str]]) -> None:
        """Settle, and count what was there."""
        count = await self.place.call("settle", lambda: self.sessions[side].settle(rows))
        self.settled += count

    async def put(self, side: Side) -> None:
        """A message is committed meanwhile."""
        application = self.place.applications[side]
        async with application.transaction():
            (self.added[side],) = await application.add(about("new"))


class Handovers:
    """Makes the worlds; the sessions stay."""

    def __init__(self, place: Place, sessions: dict[Side, Session]) -> None:
        self.place, self.sessions = place, sessions

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Handover]:
        async with self.place.fresh():
            await self.place.put(about("1"), about("2"), about("1"))
            batch = list(await self.sessions["R"].pending(LANE, 10))
            yield Handover(self.place, self.sessions, batch)

    async def run(self, left: Party[Handover], right: Party[Handover], check: Check[Handover]) -> Report:
        return await self.place.run(left, right, check, fresh=self.fresh)


async def handovers_of(place: Place) -> Handovers:
    return Handovers(place, {"L": await place.session("L"), "R": await place.session("R")})


@pytest.fixture
async def handovers(place: Place) -> Handovers:
    return await handovers_of(place)


# ---------------------------------------------------------------------------------------------------- settle, take over


def named(world: Handover) -> list[tuple[Any, str]]:
    """What the old owner published: two of the rows; and at the position of the third one a message that is no more.

    The database fell back, and gave that position to somebody else.
    """
    one, two, third = world.batch
    return [(one.position, one.id), (two.position, two.id), (third.position, about(None).id)]


async def settle_late(world: Handover) -> None:
    """The old owner's settles, in two batches."""
    rows = named(world)
    await world.settle("L", rows[:1])
    await world.settle("L", rows[1:])


async def take_over(world: Handover) -> None:
    """The new owner: settles what the receipts name, reserves what they name besides, and reads."""
    session, rows, call = world.sessions["R"], named(world), world.place.call
    last = int(rows[-1][0])
    receipts = Receipts([receipt(rows), receipt([(last + FAR, about(None).id)])])
    held = await call("held", lambda: session.held(receipts.ranges()))
    known = receipts.named()
    await world.settle("R", [(position, id_) for position, id_ in held if (position, digest(id_)) in known])
    world.reserved = await call("reserve", lambda: session.reserve(last + FAR))
    await step("put", lambda: world.put("R"))
    world.seen = [row.id for row in await call("look", lambda: session.pending(LANE, 10))]


def receipt(rows: list[tuple[Any, str]]) -> Receipt:
    positions, digests = tuple(p for p, _ in rows), tuple(digest(i) for _, i in rows)
    return Receipt(1, 1, 1, "old", positions, digests)


async def only_the_published(world: Handover, _: History) -> None:
    """Each published row was settled once, whoever did it; the stranger stands there; new positions are new."""
    stranger, new = world.batch[-1], world.added["R"]
    assert world.settled == 2
    assert world.reserved is True
    rows = await world.place.outbox()
    assert [row[1] for row in rows] == [stranger.id, new.id]
    assert rows[-1][0] > int(stranger.position) + FAR
    assert world.seen[-2:] == [stranger.id, new.id]


async def test_a_late_settle_and_a_take_over(handovers: Handovers) -> None:
    """A15: positions were handed out again, and both know only the message that stood there before."""
    report = await handovers.run(settle_late, take_over, only_the_published)
    assert (report.orders, report.waited) == (comb(STEPS[handovers.place.name] + 2, 2), 0)


async def test_a_settle_that_names_many_or_few(handovers: Handovers) -> None:
    """The other statement: positions that are far from each other are looked up one by one."""

    async def far(world: Handover) -> None:
        await world.settle("L", [*named(world), (10_000, about(None).id)])

    await handovers.run(far, take_over, only_the_published)


async def writes(world: Handover) -> None:
    await world.put("L")


async def reserves(world: Handover) -> None:
    upto = int(world.batch[-1].position) + FAR
    world.reserved = await world.place.call("reserve", lambda: world.sessions["R"].reserve(upto))
    await world.put("R")


async def later_ones_are_beyond(world: Handover, history: History) -> None:
    """Who draws a position after the reservation gets one beyond it; who drew before it may keep his."""
    limit = int(world.batch[-1].position) + FAR
    position_of = {row[1]: row[0] for row in await world.place.outbox()}
    drawn = {side: position_of[message.id] for side, message in world.added.items()}
    adding, reserving = returned(history, "L", *ADDING), returned(history, "R", *RESERVING)
    assert world.reserved is True
    assert drawn["R"] > limit
    assert drawn["L"] > limit or adding < reserving


def returned(history: History, side: Side, *names: str) -> int:
    """When a party's last step of these names did."""
    return max(t.returned for t in history.steps if t.side == side and t.name in names and t.returned is not None)


ADDING = ("add", "insert outbox")
RESERVING = ("reserve", "select")


async def test_a_reservation_and_a_writer(handovers: Handovers) -> None:
    """A15: no position up to the reserved one is handed out once that was said."""
    report = await handovers.run(writes, reserves, later_ones_are_beyond)
    assert report.orders > 5


# ------------------------------------------------------------------------------------------- settle, park, fail, mark

Act = Callable[[Handover, Side, list[Stored]], Any]


async def settle(world: Handover, side: Side, rows: list[Stored]) -> None:
    await world.settle(side, [(row.position, row.id) for row in rows])


async def park(world: Handover, side: Side, rows: list[Stored]) -> None:
    await world.place.call("park", lambda: world.sessions[side].park([(row, f"by {side}") for row in rows]))


async def fail(world: Handover, side: Side, rows: list[Stored]) -> None:
    await world.place.call("fail", lambda: world.sessions[side].failed([(row, f"by {side}") for row in rows]))


async def mark(world: Handover, side: Side, rows: list[Stored]) -> None:
    await world.place.call("mark", lambda: world.sessions[side].in_doubt(rows, 7))


def doing(act: Act, side: Side, *, backwards: bool = False) -> Party[Handover]:
    return lambda world: act(world, side, world.batch[:2][:: -1 if backwards else 1])


async def one_fate(world: Handover, history: History) -> None:
    """Each row is settled, or parked, or stands there: one of them, once. The third one was nobody's business."""
    standing, parked = [row[1] for row in await world.place.outbox()], await world.place.parked()
    assert sorted([*standing, *parked]) == sorted({*standing, *parked})
    assert world.settled + len(parked) + len(standing) == 3
    assert world.batch[2].id in standing
    if any(taken.name in ENDING for taken in history.steps):
        assert standing == [world.batch[2].id]


ENDING = {"settle", "park", "delete outbox"}

PAIRS = [(park, settle), (park, park), (park, fail), (park, mark), (fail, settle), (mark, settle), (settle, settle)]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda act: str(act.__name__))
async def test_a_row_has_one_fate(handovers: Handovers, one: Act, other: Act) -> None:
    """Each call names two rows, the other party in the opposite order: no deadlock, no error, none of them twice."""
    await handovers.run(doing(one, "L"), doing(other, "R", backwards=True), one_fate)


PARKING = {
    "postgresql": (["insert parked", "delete outbox", "commit"], 4, 2),
    "mysql": ([*["insert parked", "delete outbox"] * 2, "commit"], 6, 4),
}
"""Its statements, the orders with a settle, those in which one waited. MariaDB is told of each row by itself."""


async def test_parking_is_several_statements(server_place: Place) -> None:
    """So that the rule above is about something: the settle comes before, between and after them."""
    handovers = await handovers_of(server_place)
    report = await handovers.run(doing(park, "L"), doing(settle, "R"), one_fate)
    names, *pinned = PARKING[server_place.name]
    assert [taken.name for taken in report.histories[0].steps if taken.side == "L"] == names
    assert [report.orders, report.waited] == pinned


# ------------------------------------------------------------------------------------------------------ planted faults


async def test_a_settle_by_position_alone_is_caught(handovers: Handovers) -> None:
    """A15: it deletes the stranger."""

    async def careless(world: Handover) -> None:
        for position, _ in named(world):
            text = f"DELETE FROM {world.place.options.prefix}outbox WHERE seq = {position}"
            await world.place.left.say("settle", text)

    with pytest.raises(AssertionError, match=r"^assert 0 == 2"):
        await handovers.run(careless, take_over, only_the_published)


async def test_parking_without_a_lock_is_caught(server_place: Place) -> None:
    """A row that was settled between the copy and the removal would be published and parked."""
    handovers = await handovers_of(server_place)
    session: Any = handovers.sessions["L"]
    right = session._statements
    assert "FOR UPDATE" in right.copy_to_parked
    session._statements = replace(right, copy_to_parked=right.copy_to_parked.replace("FOR UPDATE", ""))
    with pytest.raises(AssertionError, match="== 3") as caught:
        await handovers.run(doing(park, "L"), doing(settle, "R"), one_fate)
    assert "L insert parked, R delete outbox" in caught.value.__notes__[0]


async def says_so() -> bool:
    return True


async def test_a_reservation_that_is_not_made_is_caught(handovers: Handovers) -> None:
    async def only_says_so(world: Handover) -> None:
        world.reserved = await step("reserve", says_so)
        await world.put("R")

    with pytest.raises(AssertionError, match=r"assert \d+ > \d+"):
        await handovers.run(writes, only_says_so, later_ones_are_beyond)
