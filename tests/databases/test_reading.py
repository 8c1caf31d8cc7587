"""What a relay reads: which messages, in which order, and every byte of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from fencepost.message import Stored, microseconds
from fencepost.ports import Lane, Session
from fencepost.sql.tables import State
from tests.databases.places import LANE, NOON, Place, PostgresqlPlace, pairs, row


async def test_rows_come_in_the_order_of_their_positions(place: Place, session: Session) -> None:
    added = place.add(*(row(key=f"k{i}") for i in range(25)))
    assert pairs(await session.pending(LANE, 100)) == added
    first = await session.pending(LANE, 10)
    assert pairs(first) == added[:10]
    assert pairs(await session.pending(LANE, 10, first[-1].position)) == added[10:20]
    assert pairs(await session.pending(LANE, 10, added[-1][0])) == []


async def test_a_message_arrives_as_it_was_added(place: Place, session: Session) -> None:
    """E3, E6: bytes are bytes, headers are headers."""
    payload = bytes(range(256)) + '{"a": 1e400, "a": null, "b": "\\u0000"} \N{OTTER}'.encode()
    key = "Bestellung \N{SNOWMAN} ' \" % ; --"
    ((position, message_id),) = place.add(
        row(
            key=key, version=7, payload=payload, headers='{"tenant": "\\u00e4 \N{OTTER}", "empty": ""}', topic="a.b/c_d"
        )
    )
    assert await session.pending(LANE, 10) == [
        Stored(
            position=position,
            id=message_id,
            topic="a.b/c_d",
            key=key,
            version=7,
            type="order.created",
            payload=payload,
            content_type="application/json",
            headers={"tenant": "\u00e4 \N{OTTER}", "empty": ""},
            occurred_us=microseconds(NOON),
            attempts=0,
            in_doubt=False,
        )
    ]


async def test_what_is_absent_is_none(place: Place, session: Session) -> None:
    """E7: a tombstone has no payload, a message without a key no version."""
    place.add(row(key=None, version=None, payload=None), row(key="k", payload=b""))
    without, with_empty = await session.pending(LANE, 10)
    assert (without.key, without.version, without.payload, without.headers) == (None, None, None, None)
    assert with_empty.payload == b""
    assert type(without.in_doubt) is bool


async def test_the_position_is_the_version_of_a_key_without_a_counter(place: Place, session: Session) -> None:
    place.add(row(version=41), row(version=None))
    counted, positioned = await session.pending(LANE, 10)
    assert counted.version == 41
    assert positioned.version == positioned.position


async def test_a_lane_reads_its_own_slots(place: Place, session: Session) -> None:
    added = place.add(*(row(slot=slot, key=f"k{slot}") for slot in (0, 99, 100, 101, 200, 255)))
    assert pairs(await session.pending(Lane("r", 0, 0, 99), 10)) == added[:2]
    assert pairs(await session.pending(Lane("r", 1, 100, 200), 10)) == added[2:5]
    assert pairs(await session.pending(Lane("r", 1, 100, 200), 2)) == added[2:4]
    assert pairs(await session.pending(Lane("r", 1, 100, 200), 10, added[2][0])) == added[3:5]
    assert pairs(await session.pending(Lane("r", 2, 201, 255), 10)) == added[5:]


async def test_times_are_utc_to_the_microsecond_wherever_the_writer_is(place: Place, session: Session) -> None:
    """B9: an hour that comes twice, and one from the other side of the date line."""
    paris, samoa = ZoneInfo("Europe/Paris"), ZoneInfo("Pacific/Apia")
    moments = [
        datetime(2026, 10, 25, 2, 30, 0, 1, tzinfo=paris, fold=0),
        datetime(2026, 10, 25, 2, 30, 0, 1, tzinfo=paris, fold=1),
        datetime(2026, 1, 1, 1, 2, 3, tzinfo=samoa),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ]
    place.add(*(row(occurred_at=moment) for moment in moments))
    read = [m.occurred_at for m in await session.pending(LANE, 10)]
    assert read == [m.astimezone(UTC) for m in moments]
    assert read[1] - read[0] == timedelta(hours=1)
    assert {moment.tzinfo for moment in read} == {UTC}


async def test_a_transaction_that_commits_late_is_late_not_lost(postgresql: PostgresqlPlace) -> None:
    """A3, B1, C1: the row with the smaller position commits last, after a reader went past it and a new one began.

    SQLite has one writer at a time: positions are drawn in the order of commits.
    """
    session = await postgresql.source.connect()
    early, late = postgresql.begin(), postgresql.begin()
    held_back = early.insert(row(key="a"))
    seen = late.insert(row(key="b"))
    late.commit()
    assert pairs(await session.pending(LANE, 10)) == seen
    assert await session.settle(seen) == 1
    early.commit()
    assert pairs(await session.pending(LANE, 10)) == held_back
    await session.close()
    again = await postgresql.source.connect()
    assert pairs(await again.pending(LANE, 10)) == held_back
    await again.close()


async def test_what_is_not_committed_is_not_there(place: Place, session: Session) -> None:
    transaction = place.begin()
    transaction.insert(row())
    assert await session.pending(LANE, 10) == []
    transaction.rollback()
    assert await session.pending(LANE, 10) == []


async def test_delayed_messages_wait_for_their_time(place: Place, session: Session) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    delayed = int(State.DELAYED)
    ahead = place.add(row(key="a", state=delayed, available_at=soon))
    place.add(row(key="b", state=delayed, available_at=soon + timedelta(hours=1)))
    now = place.add(row(key="c"))
    next_s = await session.release_due(100)
    assert next_s is not None
    assert 0 < next_s <= 0.31
    assert pairs(await session.pending(LANE, 10)) == now
    await asyncio.sleep(next_s)
    after_s = await session.release_due(100)
    assert after_s is not None
    assert 3500 < after_s < 3601
    assert pairs(await session.pending(LANE, 10)) == [*ahead, *now]


async def test_due_messages_are_released_in_bounded_steps(place: Place, session: Session) -> None:
    past = datetime.now(UTC) - timedelta(seconds=5)
    assert await session.release_due(3) is None
    place.add(*(row(state=int(State.DELAYED), available_at=past - timedelta(seconds=i)) for i in range(5)))
    assert await session.release_due(3) == 0.0
    assert len(await session.pending(LANE, 10)) == 3
    assert await session.release_due(3) is None
    assert len(await session.pending(LANE, 10)) == 5


async def test_the_backlog_says_what_waits(place: Place, session: Session) -> None:
    empty = await place.source.backlog()
    assert (empty.pending, empty.delayed, empty.parked, empty.oldest_age_s) == (0, 0, 0, None)
    now = datetime.now(UTC)
    minutes = timedelta(minutes=1)
    place.add(
        row(occurred_at=now - minutes),
        row(occurred_at=now),
        row(occurred_at=now - 5 * minutes, state=int(State.DELAYED), available_at=now + minutes),
        row(occurred_at=now - 2 * minutes, state=int(State.SENDING)),
    )
    await session.park([(m, "no") for m in await session.pending(LANE, 2) if m.occurred_at == now])
    found = await place.source.backlog()
    assert (found.pending, found.delayed, found.parked) == (2, 1, 1)
    assert found.oldest_age_s == pytest.approx(120, abs=10)


async def test_a_clock_ahead_of_the_databases_makes_no_negative_age(place: Place) -> None:
    place.add(row(occurred_at=datetime.now(UTC) + timedelta(hours=1)))
    assert (await place.source.backlog()).oldest_age_s == 0.0


async def test_outboxes_of_one_database_do_not_see_each_other(place: Place, session: Session) -> None:
    """A12: another prefix; on PostgreSQL also another schema, with a name that must be quoted."""
    mine = place.add(row())
    for other in _others(place):
        made = await other.schema.apply()
        theirs = await other.source.connect()
        assert await theirs.pending(LANE, 10) == []
        added = other.add(row(), row())
        assert pairs(await theirs.pending(LANE, 10)) == added
        assert await theirs.settle(mine) == 0
        assert await theirs.reserve(500)
        await theirs.settle(added)
        assert (await other.source.backlog()).pending == 0
        await theirs.close()
        assert len(made) == 5
        other.drop()
    assert pairs(await session.pending(LANE, 10)) == mine
    assert place.add(row())[0][0] < 500


def _others(place: Place) -> list[Place]:
    second = place.other(prefix=f"{place.options.prefix}second_")
    return [second] if place.name == "sqlite" else [second, place.other(schema=f'{place.options.prefix} "own" schema')]
