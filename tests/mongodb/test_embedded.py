"""The form inside business documents: what an application writes, what a relay reads, and that nothing is lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.mongodb import DOCUMENT, Document, EmbeddedOutbox, Field
from fencepost.databases.mongodb.embedded.search import Search
from fencepost.databases.mongodb.positions import time_of
from fencepost.errors import ConfigurationError, MessageRefused, SchemaMissing
from fencepost.message import Position, Stored
from fencepost.newmessage import NewMessage
from fencepost.ports import Session
from tests.mongodb.places import LANE, Place, Shifted, embedded_place


def outbox_of(place: Place, shift_s: float = 0.0) -> EmbeddedOutbox:
    return EmbeddedOutbox(prefix=place.options.prefix, clock=Shifted(shift_s))


def named(rows: Sequence[Stored]) -> list[tuple[Position, str]]:
    return [(m.position, m.id) for m in rows]


# --- the application


def test_an_update_is_merged_with_the_callers_own() -> None:
    outbox = EmbeddedOutbox()
    update = outbox.update(
        "orders", {"id": 1}, type="paid", set={"status": "paid"}, changes={"$inc": {"total": 5}, "$push": {"log": "p"}}
    )
    assert update["$set"] == {"status": "paid"}
    assert update["$inc"] == {"total": 5, "fencepost_outbox.pushed": 1}
    (message,) = update["$push"]["fencepost_outbox.waiting"]["$each"]
    assert update["$push"]["log"] == "p"
    assert (message["topic"], message["type"], message["payload"]) == ("orders", "paid", b'{"id":1}')
    assert message["at"] == update["$min"]["fencepost_outbox.next"] == update["$max"]["fencepost_outbox.high"]
    assert outbox.update_all([], set={"a": 1}) == {"$set": {"a": 1}}
    assert outbox.insert_all({"_id": 1}, []) == {"_id": 1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "paid"}, "would replace the document"),
        ({"$set": {"fencepost_outbox.pushed": 1}}, "is the outbox's own"),
        ({"$unset": {"fencepost_outbox": ""}}, "is the outbox's own"),
        ([{"$set": {"status": "paid"}}], "changes are list"),
    ],
)
def test_changes_that_would_harm_the_messages_are_refused(changes: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        EmbeddedOutbox().update("orders", {}, changes=changes)


def test_messages_are_checked_as_everywhere() -> None:
    outbox = EmbeddedOutbox(max_bytes=100)
    for refused in ({"topic": "no such topic"}, {"payload": b"x" * 101}, {"key": " blanks "}, {"id": "1"}):
        with pytest.raises(MessageRefused):
            outbox.update(**{"topic": "orders", "payload": {}, **refused})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="a field fencepost_outbox already"):
        outbox.insert({"_id": 1, "fencepost_outbox": {}}, "orders", {})


async def test_a_document_and_its_messages_are_one_write(inside: Place) -> None:
    outbox, orders = outbox_of(inside), inside.database[inside.address.collections[0]]
    orders.insert_one(outbox.insert({"_id": "order-1", "status": "new"}, "orders", b"new"))
    orders.update_one({"_id": "order-1", "status": "lost"}, outbox.update("orders", b"never", set={"status": "x"}))
    orders.update_one({"_id": "order-1", "status": "new"}, outbox.update("orders", b"paid", set={"status": "paid"}))
    orders.update_one({"_id": 7}, outbox.update("orders", b"made", key="other", version=3), upsert=True)
    several = [NewMessage("a", b"1", DOCUMENT), NewMessage("b", b"2"), NewMessage("a", b"3", DOCUMENT)]
    orders.find_one_and_update({"_id": 7}, outbox.update_all(several))
    found = await (await inside.session()).pending(LANE, 10)
    assert [(m.payload, m.key, m.version) for m in found] == [
        (b"new", "order-1", 1),
        (b"paid", "order-1", 2),
        (b"made", "other", 3),
        (b"1", "7", 2),
        (b"2", None, None),
        (b"3", "7", 4),
    ]
    assert orders.count_documents({"_id": 7, **outbox.idle()}) == 0
    session = await inside.session()
    assert await session.settle(named(found)) == 6
    assert orders.count_documents(outbox.idle()) == 2


# --- what a relay reads


def spread(place: Place, documents: int, hot: int) -> list[tuple[str, bytes]]:
    """Messages in documents of both collections, in order; between two of them a few of one busy document."""
    outbox, added = outbox_of(place), []
    for n in range(documents):
        collection = place.database[place.address.collections[n % 2]]
        collection.insert_one(outbox.insert({"_id": f"calm-{n}"}, "t", b"%d" % n))
        added.append((f"calm-{n}", b"%d" % n))
        busy = [NewMessage("t", b"%d.%d" % (n, i), DOCUMENT) for i in range(hot)]
        place.database[place.address.collections[0]].update_one({"_id": "busy"}, outbox.update_all(busy), upsert=True)
        added += [("busy", b"%d.%d" % (n, i)) for i in range(hot)]
    return added


async def test_pages_go_by_the_age_of_messages_across_documents_and_collections(inside: Place) -> None:
    """A busy document starves nobody, and nobody starves it: older messages come first, wherever they are."""
    added = spread(inside, 12, 5)
    session = await inside.session()
    for limit in (1, 7, 100):
        read: list[Stored] = []
        while page := await session.pending(LANE, limit, read[-1].position if read else None):
            read += page
            assert list(await session.below(LANE, read[-1].position, 1_000)) == [m.position for m in read]
        assert [(m.key, m.payload) for m in read] == added
        assert all(str(a.position) < str(b.position) for a, b in pairwise(read))
    rest = added
    while rest:
        page = await session.pending(LANE, 10)
        assert [(m.key, m.payload) for m in page] == rest[:10]
        assert await session.settle(named(page)) == len(page)
        rest = rest[10:]


async def test_only_documents_with_messages_are_read(secantusdb_url: str, fresh_name: str) -> None:
    """D8: through an index that has no other documents, in its order."""
    place = embedded_place(secantusdb_url, fresh_name, "orders")
    await place.schema.apply()
    field = Field(place.options.prefix)
    orders = place.database[place.address.collections[0]]
    for part in ("next", "due"):
        cursor = orders.find({field.path(part): {"$gte": 0}}, hint=field.index(part)).sort(field.path(part), 1)
        plan = str(cursor.explain()["queryPlanner"]["winningPlan"])
        assert f"'indexName': '{field.index(part)}'" in plan
        assert "'isSparse': True" in plan
        assert "'stage': 'SORT'" not in plan
    await place.close()


async def test_an_index_that_is_missing_is_named(secantusdb_url: str, fresh_name: str) -> None:
    place = embedded_place(secantusdb_url, fresh_name, "orders", "customers")
    assert len(await place.schema.apply()) == 7
    index = Field(place.options.prefix).index("next")
    name = f"{place.address.collections[1]}.{index}"
    place.database[place.address.collections[1]].drop_index(index)
    with pytest.raises(SchemaMissing, match=f"has no {name}: run `fencepost schema apply`"):
        await place.source.connect()
    assert await place.schema.apply() == [name]
    await place.session()
    await place.close()


# --- versions and positions


class History:
    """What has been seen of one document's messages: it must never change."""

    def __init__(self) -> None:
        self.pushed: list[str] = []
        self.seen: dict[str, tuple[int, int]] = {}

    def look(self, document: Document, next_us: int | None) -> None:
        for one in document.waiting:
            assert self.seen.setdefault(one.id, (one.version, one.at_us)) == (one.version, one.at_us)
        in_order = [self.seen[i] for i in self.pushed if i in self.seen]
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(in_order))
        assert [version for version, _ in in_order] == [self.pushed.index(i) + 1 for i in self.pushed if i in self.seen]
        ready = [one.at_us for one in document.waiting if not one.delayed]
        assert (next_us is None) == (not ready)
        assert next_us is None or next_us <= min(ready)


@pytest.mark.parametrize("seed", [1, 2])
async def test_versions_and_positions_never_change_whatever_is_taken_out(inside: Place, seed: int) -> None:
    """B1, B4, A15: three machines with wrong clocks push, several at once, some delayed; all is settled, parked and
    released in any order.
    """
    chance = random.Random(seed)
    field, orders = Field(inside.options.prefix), inside.database[inside.address.collections[0]]
    outboxes = [outbox_of(inside, shift_s) for shift_s in (0.0, -90.0, 90.0)]
    session, history = await inside.session(), History()
    fields: dict[str, Any] = {}
    for _ in range(40):
        if chance.random() < 0.6:
            due = SYSTEM_CLOCK.now() + timedelta(milliseconds=50)
            new = [
                NewMessage("t", b"", DOCUMENT, available_at=due if chance.random() < 0.3 else None)
                for _ in range(chance.choice((1, 1, 3)))
            ]
            update = chance.choice(outboxes).update_all(new)
            history.pushed += [m["id"] for m in update["$push"][field.path("waiting")]["$each"]]
            orders.update_one({"_id": 1}, update, upsert=True)
        elif chance.random() < 0.2:
            await session.release_due(2)
        else:
            await take_out(session, chance)
        found = orders.find_one({"_id": 1}) or {}
        fields = found.get(field.name, {})
        history.look(Document(field, 1, fields), fields.get("next"))
    assert len(history.pushed) == fields["pushed"]


async def take_out(session: Session, chance: random.Random) -> None:
    rows = list(await session.pending(LANE, 100))
    held = await session.held([("", "~")])
    some = chance.sample(held, chance.randint(0, len(held)))
    if chance.random() < 0.2 and rows:
        await session.park([(m, "bad") for m in chance.sample(rows, 1)])
    else:
        assert await session.settle(some) == len(some)


async def test_pushes_and_settles_at_the_same_time_lose_nothing(inside: Place) -> None:
    """B10: applications write on while a relay takes out what it has published."""
    orders, total = inside.database[inside.address.collections[0]], 60
    outbox = outbox_of(inside)

    def write() -> None:
        for _ in range(total // 3):
            orders.update_one({"_id": "hot"}, outbox.update("t", b"", set={"touched": True}), upsert=True)

    orders.insert_one({"_id": "hot"})
    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    session = await inside.session()
    versions: list[int | None] = []
    while len(versions) < total:
        rows = await session.pending(LANE, 10)
        versions += [m.version for m in rows]
        assert await session.settle(named(rows)) == len(rows)
    for thread in threads:
        thread.join()
    assert versions == list(range(1, total + 1))
    times = [time_of(m.position) for m in await session.pending(LANE, 10)]
    assert times == []


async def test_a_push_between_reading_and_taking_out_is_not_taken_out(
    inside: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B10: exactly then, each time."""
    orders, outbox = inside.database[inside.address.collections[0]], outbox_of(inside)
    session, with_ids = await inside.session(), Search.with_ids
    orders.insert_one(outbox.insert_all({"_id": 1}, [NewMessage("t", b"", DOCUMENT), NewMessage("t", b"", DOCUMENT)]))
    pushes = iter(range(3))

    async def and_then_a_push(search: Search, ids: list[Any]) -> list[Document]:
        read = await with_ids(search, ids)
        if next(pushes, None) is not None:
            orders.update_one({"_id": 1}, outbox.update("t", b""))
        return read

    monkeypatch.setattr(Search, "with_ids", and_then_a_push)
    first, second = await session.pending(LANE, 10)
    assert await session.settle(named([first, second])) == 2
    assert [m.version for m in await session.pending(LANE, 10)] == [3, 4, 5]


async def test_what_another_session_reads_it_can_settle_too(inside: Place) -> None:
    """A15: receipts name positions that this session has not read; those of others that came back are left alone."""
    spread(inside, 3, 2)
    first, second = await inside.session(), await inside.session()
    rows = await first.pending(LANE, 100)
    assert await second.settle([*named(rows[::2]), (rows[1].position, rows[0].id)]) == len(rows[::2])
    assert await first.settle(named(rows)) == len(rows[1::2])
    assert await second.held([(rows[0].position, rows[-1].position)]) == []


async def test_a_document_that_is_deleted_is_no_trouble(inside: Place) -> None:
    spread(inside, 2, 1)
    session = await inside.session()
    rows = await session.pending(LANE, 100)
    inside.database[inside.address.collections[0]].delete_one({"_id": "busy"})
    assert await session.settle(named(rows)) == 2
    await session.failed([(rows[1], "gone")])
    assert await session.pending(LANE, 100) == []


async def test_clocks_that_are_wrong_hide_no_message(inside: Place) -> None:
    """The second message has a far earlier time of its own: it is moved above the first, and found above it."""
    orders = inside.database[inside.address.collections[0]]
    for shift_s in (600.0, 0.0, -600.0):
        orders.update_one({"_id": 1}, outbox_of(inside, shift_s).update("t", b"%d" % shift_s), upsert=True)
    session = await inside.session()
    first, *others = await session.pending(LANE, 10)
    assert [m.payload for m in (first, *others)] == [b"600", b"0", b"-600"]
    assert [m.id for m in await session.pending(LANE, 10, first.position)] == [m.id for m in others]
    await session.settle(named([first]))
    assert [m.position for m in await session.pending(LANE, 10)] == [m.position for m in others]
