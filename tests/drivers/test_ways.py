"""What holds for every driver, connection and session: same rows, same fate as the business, same refusals."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from fencepost.errors import SchemaMissing, VersionConflict
from fencepost.message import slot_of
from fencepost.outbox import NewMessage, Outbox
from fencepost.sql.outbox import Versions
from fencepost.sql.tables import State
from tests.drivers.ways import WAYS, Place, Way

BOTH: list[Versions] = ["counter", "position"]

PAYLOADS = [
    b'{"a":null,"b":[],"c":{}}',
    b'{"n":1e400}',
    b'{"d":0.123456789012345678901234567890}',
    b'{"k":1,"k":2}',
    b'{"z":"\\u0000"}',
    b"\x00\x01\xfe\xff",
    ("x" * 8191 + "\U0001f600" * 3).encode(),
    b"",
]


def options_of(way: Way, place: Place, versions: Versions) -> dict[str, Any]:
    if way.database == "mariadb" and versions == "position":
        pytest.skip("MariaDB refuses versions by position, which test_no_transaction.py tests")
    return {"versions": versions, **place.names}


class Broken(Exception):
    """The business fails."""


@pytest.mark.parametrize("versions", BOTH)
async def test_a_message_is_committed_with_the_business(way: Way, way_place: Place, versions: Versions) -> None:
    options = options_of(way, way_place, versions)
    async with way.transaction(way_place.url) as tx:
        message = await way.add(
            options, tx, "orders.placed", {"id": 7, "name": "é"}, key="7", type="placed", headers={"trace": "a é"}
        )

    (row,) = way_place.rows()
    assert row["id"] == message.id
    assert (row["topic"], row["key"], row["type"]) == ("orders.placed", "7", "placed")
    assert row["payload"] == message.payload == '{"id":7,"name":"é"}'.encode()
    assert row["content_type"] == "application/json"
    assert json.loads(row["headers"]) == {"trace": "a é"}
    assert row["slot"] == slot_of("7", message.id)
    assert (row["state"], row["available_at"], row["attempts"], row["token"]) == (State.PENDING, None, 0, None)
    assert row["occurred_at"] == message.occurred_at
    assert row["version"] == (1 if versions == "counter" else None)
    expected = 1 if versions == "counter" else row["seq"]
    assert message.version == (None if way.session else expected)


@pytest.mark.parametrize("versions", BOTH)
async def test_a_rolled_back_message_leaves_nothing(way: Way, way_place: Place, versions: Versions) -> None:
    options = options_of(way, way_place, versions)
    with pytest.raises(Broken):  # noqa: PT012
        async with way.transaction(way_place.url) as tx:
            await way.add(options, tx, "orders", 1, key="7")
            await way.add_all(options, tx, [NewMessage("orders", n, key=str(n)) for n in range(3)])
            raise Broken
    assert way_place.rows() == []
    assert way_place.versions() == {}


@pytest.mark.parametrize("versions", BOTH)
async def test_versions_grow_by_entity(way: Way, way_place: Place, versions: Versions) -> None:
    options = options_of(way, way_place, versions)
    async with way.transaction(way_place.url) as tx:
        for topic, key in (("a", "1"), ("a", "2"), ("b", "1"), ("a", "1"), ("a", None)):
            await way.add(options, tx, topic, 0, key=key)
    async with way.transaction(way_place.url) as tx:
        await way.add_all(options, tx, [NewMessage("a", 0, key="1"), NewMessage("a", 0), NewMessage("a", 0, key="1")])

    found: dict[tuple[str, str | None], list[int | None]] = {}
    for row in way_place.rows():
        found.setdefault((row["topic"], row["key"]), []).append(row["version"])
    if versions == "counter":
        assert found == {("a", "1"): [1, 2, 3, 4], ("a", "2"): [1], ("b", "1"): [1], ("a", None): [None, None]}
        assert way_place.versions() == {("a", "1"): 4, ("a", "2"): 1, ("b", "1"): 1}
    else:
        assert {version for each in found.values() for version in each} == {None}
        assert way_place.versions() == {}


@pytest.mark.parametrize("versions", BOTH)
async def test_many_messages_keep_the_order_of_their_entity(way: Way, way_place: Place, versions: Versions) -> None:
    options = options_of(way, way_place, versions)
    new = [NewMessage("orders", n, key=None if n % 5 == 4 else f"key {n * 7 % 3}") for n in range(60)]
    async with way.transaction(way_place.url) as tx:
        returned = await way.add_all(options, tx, new)

    rows = way_place.rows()
    by_id = {row["id"]: row for row in rows}
    assert len(rows) == 60
    assert [message.payload for message in returned] == [str(n).encode() for n in range(60)]
    for key in ("key 0", "key 1", "key 2"):
        sent = [message for message in returned if message.key == key]
        assert [row["id"] for row in rows if row["key"] == key] == [message.id for message in sent]
        if versions == "counter":
            assert [by_id[message.id]["version"] for message in sent] == list(range(1, len(sent) + 1))
    if not way.session:
        assert [message.version for message in returned] == [
            None if message.key is None else by_id[message.id]["version"] or by_id[message.id]["seq"]
            for message in returned
        ]


async def test_no_messages_are_no_trouble(way: Way, way_place: Place) -> None:
    async with way.transaction(way_place.url) as tx:
        assert await way.add_all(way_place.names, tx, []) == []
    assert way_place.rows() == []


@pytest.mark.parametrize("versions", BOTH)
async def test_the_callers_own_versions(way: Way, way_place: Place, versions: Versions) -> None:
    options = options_of(way, way_place, versions)
    async with way.transaction(way_place.url) as tx:
        assert (await way.add(options, tx, "orders", 0, key="1", version=5)).version == 5
    async with way.transaction(way_place.url) as tx:
        new = [NewMessage("orders", 0, key=key, version=version) for key, version in (("2", 1), ("1", 6), ("2", 4))]
        assert [message.version for message in await way.add_all(options, tx, new)] == [1, 6, 4]
    assert sorted((row["key"], row["version"]) for row in way_place.rows()) == [("1", 5), ("1", 6), ("2", 1), ("2", 4)]
    assert way_place.versions() == ({("orders", "1"): 6, ("orders", "2"): 4} if versions == "counter" else {})


@pytest.mark.parametrize("version", [1, 5])
async def test_a_version_that_is_not_newer_is_a_conflict(way: Way, way_place: Place, version: int) -> None:
    async with way.transaction(way_place.url) as tx:
        await way.add(way_place.names, tx, "orders", 0, key="1", version=5)
    with pytest.raises(VersionConflict, match=f"version {version} of '1' on topic 'orders' is not newer.*roll back"):
        async with way.transaction(way_place.url) as tx:
            await way.add(way_place.names, tx, "orders", 1, key="1", version=version)
    assert [row["version"] for row in way_place.rows()] == [5]
    assert way_place.versions() == {("orders", "1"): 5}


@pytest.mark.parametrize("way", [way for way in WAYS if not way.session], ids=lambda way: way.name)
async def test_after_a_conflict_nothing_was_written_and_the_transaction_goes_on(way: Way, way_place: Place) -> None:
    async with way.transaction(way_place.url) as tx:
        await way.add(way_place.names, tx, "orders", 0, key="1", version=5)
        with pytest.raises(VersionConflict):
            await way.add(way_place.names, tx, "orders", 1, key="1", version=5)
        await way.add(way_place.names, tx, "orders", 2, key="1")
    assert [(row["payload"], row["version"]) for row in way_place.rows()] == [(b"0", 5), (b"2", 6)]


@pytest.mark.parametrize("write", ["one", "many"])
async def test_payloads_are_kept_byte_by_byte(way: Way, way_place: Place, write: str) -> None:
    """E3, E7"""
    expected = [*PAYLOADS, None]
    async with way.transaction(way_place.url) as tx:
        if write == "many":
            await way.add_all(way_place.names, tx, [NewMessage("t", payload) for payload in expected])
        for payload in expected if write == "one" else []:
            await way.add(way_place.names, tx, "t", payload)
    rows = way_place.rows()
    assert [row["payload"] for row in rows] == expected
    assert {row["content_type"] for row in rows[:-1]} == {"application/octet-stream"}


@pytest.mark.parametrize("write", ["one", "many"])
async def test_texts_are_kept_as_they_are(way: Way, way_place: Place, write: str) -> None:
    """E6: header values that are empty or not ASCII; keys with everything that text may have."""
    keys = ["é", "a b", "a'b\"c", "100%s %(x)s", "{a,b}", "NULL", "\\N", "\U0001f600" * 255, "$1", ":x", "?"]
    headers = {"empty": "", "greek": "αβγ", "quote": "'\"\\{}%s", "null": "NULL"}
    new = [NewMessage("t", 0, key=key, headers=headers, type="é/1", content_type="text/plain; a=b") for key in keys]
    async with way.transaction(way_place.url) as tx:
        if write == "many":
            await way.add_all(way_place.names, tx, new)
        for one in new if write == "one" else []:
            await way.add(way_place.names, tx, **one._asdict())
    rows = way_place.rows()
    assert sorted(row["key"] for row in rows) == sorted(keys)
    assert [json.loads(row["headers"]) for row in rows] == [headers] * len(keys)
    assert {(row["type"], row["content_type"]) for row in rows} == {("é/1", "text/plain; a=b")}
    assert way_place.versions() == {("t", key): 1 for key in keys}


@pytest.mark.parametrize("write", ["one", "many"])
async def test_times_are_utc_whatever_zone_they_came_in(way: Way, way_place: Place, write: str) -> None:
    """B9"""
    berlin = ZoneInfo("Europe/Berlin")
    due = datetime.now(UTC).replace(microsecond=123456) + timedelta(days=1)
    moments = {
        datetime(2026, 3, 29, 2, 30, tzinfo=berlin): datetime(2026, 3, 29, 1, 30, tzinfo=UTC),  # does not exist there
        datetime(2026, 7, 1, 12, 0, 0, 1, tzinfo=berlin): datetime(2026, 7, 1, 10, 0, 0, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC): datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    }
    new = [NewMessage("t", 0, occurred_at=moment, available_at=due.astimezone(berlin)) for moment in moments]
    async with way.transaction(way_place.url) as tx:
        if write == "many":
            await way.add_all(way_place.names, tx, new)
        for one in new if write == "one" else []:
            await way.add(way_place.names, tx, **one._asdict())
    rows = way_place.rows()
    assert [row["occurred_at"] for row in rows] == list(moments.values())
    assert [(row["available_at"], row["state"]) for row in rows] == [(due, State.DELAYED)] * 3


async def test_a_message_whose_time_has_come_does_not_wait(way: Way, way_place: Place) -> None:
    async with way.transaction(way_place.url) as tx:
        message = await way.add(way_place.names, tx, "t", 0, available_at=datetime.now(UTC) - timedelta(microseconds=1))
    (row,) = way_place.rows()
    assert (row["state"], row["available_at"], message.available_at) == (State.PENDING, None, None)


async def test_missing_tables_are_named_with_the_remedy(way: Way, way_place: Place) -> None:
    with pytest.raises(SchemaMissing, match=r"nowhere_outbox.*nowhere_lane.*fencepost schema apply"):
        async with way.transaction(way_place.url) as tx:
            await way.add({"prefix": "nowhere_"}, tx, "t", 0, key="1")


@pytest.mark.parametrize("versions", BOTH)
@pytest.mark.parametrize("count", [1, 50])
async def test_one_round_trip_on_postgresql(postgresql: Place, versions: Versions, count: int) -> None:
    """One statement for a message, and one for many."""
    engine = sa.create_engine(postgresql.engine().url, poolclass=sa.NullPool)
    said: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda *call: said.append(call[2]))
    new = [NewMessage("t", n, key=str(n % 3)) for n in range(count)]
    with engine.begin() as connection:
        Outbox(versions=versions, **postgresql.names).add_all(connection, new)
    assert len(said) == 1
    assert len(postgresql.rows()) == count
