"""A writer and a relay, every order of their steps: what commits late is late, what is not committed is not there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from fencepost.history import Entry, compare
from fencepost.message import Message, Stored
from fencepost.ports import Session
from fencepost.testing.interleave import History, Party, Report, step
from tests.interleavings.place import LANE, Place, Unlucky, about

LIMIT = 10
ORDERS = {
    ("sqlite", "1"): (4, 23, 12, 0),
    ("sqlite", "2"): (4, 23, 12, 0),
    ("postgresql", "1"): (2, 12, 1, 0),
    ("postgresql", "2"): (2, 15, 0, 3),
    ("mysql", "1"): (3, 23, 2, 0),
    ("mysql", "2"): (3, 35, 0, 3),
}
"""By the other writer's key: the writer's steps, orders, those in which somebody waited, those in which he was late.

Of one key there is one order where three would be late.
"""


@dataclass
class Shop:
    """One play: a writer on the left, and on the right a relay, beside another writer."""

    place: Place
    session: Session
    committed: list[Message] = field(default_factory=list)
    published: list[Stored] = field(default_factory=list)
    looks: list[list[str]] = field(default_factory=list)
    settled: list[tuple[int, int]] = field(default_factory=list)  # how many were named, how many there were
    batch: list[Stored] = field(default_factory=list)

    async def look(self) -> None:
        """Read what is pending, and publish it elsewhere."""
        self.batch = list(await self.session.pending(LANE, LIMIT))
        self.looks.append([row.id for row in self.batch])
        self.published += self.batch

    async def settle(self) -> None:
        """Settle what was published."""
        if self.batch:
            count = await self.session.settle([(row.position, row.id) for row in self.batch])
            self.settled.append((len(self.batch), count))
            self.batch = []

    async def put(self, key: str) -> None:
        """The other writer's whole transaction."""
        application = self.place.right
        async with application.transaction():
            added = await application.add(about(key))
        self.committed += added

    async def restart(self) -> None:
        """The relay dies and comes back: it remembers nothing."""
        await self.session.close()
        self.session, self.batch = await self.place.session("R"), []

    async def round(self) -> None:
        """All that a relay does once."""
        await self.look()
        await self.settle()


class Shops:
    """Makes the worlds. Whose relay was restarted hands its new session on."""

    def __init__(self, place: Place, kind: type[Shop]) -> None:
        self._place, self._kind = place, kind
        self._session: Session | None = None

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Shop]:
        if self._session is None:
            self._session = await self._place.session("R")
        async with self._place.fresh():
            shop = self._kind(self._place, self._session)
            try:
                yield shop
            finally:
                self._session = shop.session


def writer(*keys: str, fails: bool = False, undone: str | None = None) -> Party[Shop]:
    """One transaction with these messages; with one more that is undone to a savepoint; rolled back where it fails."""

    async def party(shop: Shop) -> list[Message]:
        application = shop.place.left
        added: list[Message] = []
        with suppress(Unlucky):
            async with application.transaction():
                for number, key in enumerate(keys):
                    if number == 1 and undone is not None:
                        await application.connection.execute("SAVEPOINT here")
                        await application.add(about(undone))
                        await application.say("undo", "ROLLBACK TO SAVEPOINT here")
                    added += await application.add(about(key))
                if fails:
                    raise Unlucky
        shop.committed += [] if fails else added
        return added

    return party


def relay(*acts: str, key: str = "2") -> Party[Shop]:
    """These acts, one step each; ``put`` is another writer's transaction."""

    async def party(shop: Shop) -> None:
        calls = {"look": shop.look, "settle": shop.settle, "restart": shop.restart, "round": shop.round}
        for act in acts:
            await step(act, calls.get(act, lambda: shop.put(key)))

    return party


async def exactly_once(shop: Shop, history: History) -> None:
    """After a last round: all that was committed was published, once, in order; nothing else was ever seen."""
    seen_at(shop, history)
    await shop.settle()
    await shop.round()
    while shop.looks[-1]:
        await shop.round()
    report = compare([entry(m) for m in shop.committed], [[entry(m) for m in shop.published]])
    assert report.clean, report
    assert all(named == there for named, there in shop.settled)
    assert await shop.place.outbox() == []


def entry(message: Message | Stored) -> Entry:
    return Entry(message.id, message.key, message.version)


def seen_at(shop: Shop, history: History) -> None:
    """A look sees the writer's messages if, and only if, they were committed before it. It never waits for him."""
    mine = {m.id for m in history.left.result or []}  # type: ignore[attr-defined]
    there = False
    looks = iter(shop.looks)
    for taken in history.steps:
        if taken.side == "L":
            there = there or taken.name == "commit"
        elif taken.name in {"look", "round"}:
            assert taken.name == "round" or not taken.waited
            seen = mine & set(next(looks))
            assert there or not seen
            if there and taken.name == "look":
                assert seen == mine
                mine = set()  # published: settled or not, that is the other rule's matter


async def run(place: Place, left: Party[Shop], right: Party[Shop], kind: type[Shop] = Shop) -> Report:
    return await place.run(left, right, exactly_once, fresh=Shops(place, kind).fresh)


def late(report: Report) -> int:
    """Orders in which a message with the smaller position was committed after the relay had published a larger one."""
    return sum(
        bool(re.search(r"L (?:add|insert outbox), .*R put, .*R look, .*L commit", history.told))
        for history in report.histories
    )


@pytest.mark.parametrize("key", ["1", "2"], ids=["same key", "another key"])
async def test_a_message_that_commits_late_is_late_not_lost(place: Place, key: str) -> None:
    """B1, C1: where keys differ, PostgreSQL commits the larger position first. Of one key, nobody's writer does."""
    report = await run(place, writer("1"), relay("put", "look", "settle", "look", key=key))
    steps, *pinned = ORDERS[place.name, key]
    assert [report.orders, report.waited, late(report)] == pinned
    assert report.unseen(steps, 4) == []


async def test_a_relay_that_died_in_between_finds_it_too(place: Place) -> None:
    """C1, with a restart before the late commit and after it"""
    report = await run(place, writer("1"), relay("put", "round", "restart", "round"))
    assert any(
        re.search(r"L (?:add|insert outbox), .*R restart, L commit", history.told) for history in report.histories
    )


async def test_what_is_rolled_back_is_never_seen_nor_in_the_way(place: Place) -> None:
    report = await run(place, writer("1", fails=True), relay("put", "look", "settle", "look"))
    assert all(history.left.result for history in report.histories)  # it had added something


async def test_what_is_undone_to_a_savepoint_is_never_seen(place: Place) -> None:
    """C12"""
    await run(place, writer("1", "1", undone="1"), relay("look", "settle"))


async def test_readers_and_writers_of_a_file_without_a_write_ahead_log(sqlite_place: Place) -> None:
    await run(sqlite_place, writer("1"), relay("look", "put", "settle"))


# ------------------------------------------------------------------------------------------------------ planted faults


GONE = r"lost=1|assert set\(\) == "
"""Not published at the end, or not seen although it was committed."""


async def test_a_relay_that_remembers_how_far_it_came_is_caught(server_place: Place) -> None:
    """C1: it reads above the last position that it saw. (On SQLite positions are drawn under the file's lock.)"""

    class Cursor(Shop):
        async def look(self) -> None:
            after = max((row.position for row in self.published), default=None)
            self.batch = list(await self.session.pending(LANE, LIMIT, after))
            self.looks.append([row.id for row in self.batch])
            self.published += self.batch

    with pytest.raises(AssertionError, match=GONE) as caught:
        await run(server_place, writer("1"), relay("put", "look", "settle", "look"), kind=Cursor)
    assert re.search(r"L (?:add|insert outbox), .*R put, .*R look, .*L commit", caught.value.__notes__[0])


async def test_a_relay_that_settles_what_it_has_not_published_is_caught(place: Place) -> None:
    class Broom(Shop):
        async def settle(self) -> None:
            application = self.place.right
            async with application.transaction():
                await application.say("settle", f"DELETE FROM {self.place.options.prefix}outbox")
            self.batch = []

    with pytest.raises(AssertionError, match=GONE):
        await run(place, writer("1"), relay("look", "settle", "look"), kind=Broom)


async def test_a_relay_that_sees_what_is_not_committed_is_caught(place: Place) -> None:
    """It looks through the writer's own connection."""

    class Nosy(Shop):
        async def look(self) -> None:
            if not self.place.left.open:
                return await super().look()
            return self.looks.append([id_ for _, id_, *_ in await self.place.outbox()])

    with pytest.raises(AssertionError, match=r"assert \(False or not"):
        await run(place, writer("1"), relay("look"), kind=Nosy)
