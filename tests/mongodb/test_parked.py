"""Parked messages in MongoDB: keys that are not the document's, versions of an application, a document that changes."""

from __future__ import annotations

import asyncio
from typing import Any

from fencepost.databases.mongodb import DOCUMENT, EmbeddedOutbox
from fencepost.newmessage import NewMessage
from fencepost.ports import ParkedFilter, ParkedStore
from tests.mongodb.places import LANE, Place

EVERYTHING = ParkedFilter()


def orders(inside: Place) -> Any:
    """The first of its collections."""
    return inside.database[inside.address.collections[0]]


async def parked(inside: Place, *messages: NewMessage) -> ParkedStore:
    """Add messages to one document, and park them."""
    outbox = EmbeddedOutbox(prefix=inside.options.prefix)
    orders(inside).update_one({"_id": 1}, outbox.update_all(messages), upsert=True)
    session = await inside.session()
    await session.park([(row, "too large") for row in await session.pending(LANE, 100)])
    store: Any = await inside.source.parked()
    return store  # type: ignore[no-any-return]


async def test_keys_are_what_they_were(inside: Place) -> None:
    given = [NewMessage("orders", 1, DOCUMENT), NewMessage("orders", 2, "other"), NewMessage("orders", 3)]
    store = await parked(inside, *given)
    assert len(await store.retry(await store.page(EVERYTHING, 10))) == 3
    rows = await (await inside.session()).pending(LANE, 10)
    assert [(row.key, row.payload) for row in rows] == [("1", b"1"), ("other", b"2"), (None, b"3")]
    (document,) = orders(inside).find()
    waiting = document[f"{inside.options.prefix}outbox"]["waiting"]
    assert ["key" in one for one in waiting] == [False, True, True], "the document's own key need not be written"
    await store.close()


async def test_versions_that_are_not_counted_are_the_applications(inside: Place) -> None:
    store = await parked(inside, NewMessage("orders", 1, DOCUMENT, version=7))
    await store.retry(await store.page(EVERYTHING, 10))
    assert [row.version for row in await (await inside.session()).pending(LANE, 10)] == [7]
    await store.close()


async def test_a_document_that_changes_meanwhile_loses_nothing(inside: Place) -> None:
    """An application pushes, a relay settles and an operator retries, all at once."""
    store = await parked(inside, *[NewMessage("orders", n, DOCUMENT) for n in range(20)])
    outbox = EmbeddedOutbox(prefix=inside.options.prefix)
    session = await inside.session()
    seen: list[bytes | None] = []

    async def apply() -> None:
        for n in range(20, 40):
            update = outbox.update("orders", n, key=DOCUMENT)
            await asyncio.to_thread(orders(inside).update_one, {"_id": 1}, update)

    async def relay() -> None:
        while len(seen) < 40:
            rows = await session.pending(LANE, 3)
            seen.extend(row.payload for row in rows)
            assert await session.settle([(row.position, row.id) for row in rows]) == len(rows)
            await asyncio.sleep(0.01)

    page = await store.page(EVERYTHING, 100)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for each in (apply(), relay(), store.retry(page)):
            tasks.create_task(each)
    assert sorted(int(payload or b"-1") for payload in seen) == list(range(40))
    assert await store.count(EVERYTHING) == 0
    await store.close()
