"""What a relay changes: it settles, marks, sets aside, and never touches a message that was not named."""

from __future__ import annotations

import asyncio

import pytest

from fencepost.errors import ConnectionLost
from fencepost.ports import Session
from fencepost.sql.source import ERROR_CHARACTERS_MAX
from fencepost.sql.tables import State
from tests.databases.places import LANE, Connect, Place, pairs, row


async def test_what_is_settled_is_gone_also_for_others(place: Place, session: Session) -> None:
    added = place.add(*(row(key=f"k{i}") for i in range(10)))
    assert await session.settle(added[2:5]) == 3
    assert pairs(await session.pending(LANE, 100)) == added[:2] + added[5:]
    assert await session.settle(added[2:6]) == 1
    assert await session.settle([]) == 0
    other = await place.source.connect()
    assert pairs(await other.pending(LANE, 100)) == added[:2] + added[6:]
    await other.close()


async def test_a_position_with_another_id_is_another_message(place: Place, session: Session) -> None:
    """A15: the database fell back and handed the position out again."""
    ((position, message_id),) = place.add(row())
    stranger = row()["id"]
    before = await session.pending(LANE, 10)
    assert await session.settle([(position, stranger)]) == 0
    await session.failed([(before[0]._replace(id=stranger), "no")])
    await session.park([(before[0]._replace(id=stranger), "no")])
    await session.in_doubt([before[0]._replace(id=stranger)], 1)
    assert await session.pending(LANE, 10) == before
    assert await session.settle([(position, stranger), (position, message_id), (position + 1, message_id)]) == 1


@pytest.mark.parametrize("step", [1, 2, 3, 7])
async def test_gaps_between_what_is_settled_stay(place: Place, session: Session, step: int) -> None:
    """Near or far apart, in any order: exactly what is named is settled."""
    added = place.add(*(row(key=f"k{i}") for i in range(60)))
    named = added[3:50:step]
    assert await session.settle(named[::-1]) == len(named)
    assert pairs(await session.pending(LANE, 100)) == [pair for pair in added if pair not in named]


async def test_an_id_of_zeros_is_an_id(place: Place, session: Session) -> None:
    zeros = "00000000-0000-0000-0000-000000000000"
    added = place.add(row(), row(id=zeros), row(), row())
    assert await session.settle([added[0], added[2]]) == 2
    assert pairs(await session.pending(LANE, 10)) == [added[1], added[3]]
    assert await session.settle([added[1], added[3]]) == 2
    assert await session.pending(LANE, 10) == []


async def test_fetching_and_settling_overlap(place: Place, session: Session) -> None:
    added = place.add(*(row(key=f"k{i}") for i in range(400)))
    settled, rest = 0, added
    while rest:
        now, rest = rest[:40], rest[40:]
        count, one, two = await asyncio.gather(
            session.settle(now), session.pending(LANE, 1000, now[-1][0]), session.pending(LANE, 1000, now[-1][0])
        )
        settled += count
        assert pairs(one) == pairs(two) == rest
    assert settled == 400
    assert await session.pending(LANE, 10) == []


async def test_held_names_every_row_that_waits_in_the_ranges(place: Place, session: Session) -> None:
    added = place.add(*(row(key=f"k{i}") for i in range(20)))
    place.add(row(state=int(State.DELAYED)))
    first = added[0][0]
    await session.settle(added[3:6])
    await session.in_doubt((await session.pending(LANE, 1)), 5)
    ranges = [(first + 10, first + 12), (first, first + 4), (first + 11, first + 11), (first + 20, first + 900)]
    found = [(int(p), i) for p, i in await session.held(ranges)]
    assert found[:-1] == added[:3] + added[10:13]
    assert found[-1][0] == first + 20
    assert await session.held([]) == []
    assert await session.held([(first + 3, first + 5)]) == []


async def test_rows_in_doubt_are_marked_and_stay_pending(place: Place, session: Session) -> None:
    """D1: whoever owns the lane next finds them, with nobody's help."""
    place.add(row(key="a"), row(key="b"))
    first, second = await session.pending(LANE, 10)
    await session.in_doubt([first], 77)
    assert await session.pending(LANE, 10) == [first._replace(in_doubt=True), second]
    assert place.ask(f"SELECT token FROM {place.outbox} ORDER BY seq") == [(77,), (None,)]
    other = await place.source.connect()
    assert await other.pending(LANE, 10) == [first._replace(in_doubt=True), second]
    await other.close()


async def test_a_failure_is_counted_and_its_text_kept(place: Place, session: Session) -> None:
    """E2: a text of a megabyte is cut; one that the database could not store is changed."""
    place.add(row(key="a"), row(key="b"), row(key="c"))
    first, second, third = await session.pending(LANE, 10)
    await session.failed([(third, "\0 \N{OTTER} \ud800"), (first, "x" * 1_000_000)])
    await session.failed([(first, "second try")])
    assert await session.pending(LANE, 10) == [first._replace(attempts=2), second, third._replace(attempts=1)]
    texts = place.ask(f"SELECT last_error FROM {place.outbox} ORDER BY seq")
    assert texts == [("second try",), (None,), ("\N{REPLACEMENT CHARACTER} \N{OTTER} ?",)]


async def test_parked_messages_move_whole(place: Place, session: Session) -> None:
    place.add(row(key="a", headers='{"a": "b"}', version=4), row(key="b"))
    first, second = await session.pending(LANE, 10)
    await session.failed([(first, "once")])
    await session.park([(first, "y" * 10_000)])
    assert await session.pending(LANE, 10) == [second]
    parked = f"{place.options.prefix}parked"
    key = "`key`" if place.name == "mysql" else "key"
    columns = f"seq, id, topic, {key}, version, type, slot, payload, content_type, headers, attempts, reason"
    ((seq, id_, *rest),) = place.ask(f"SELECT {columns} FROM {parked}")
    assert (seq, str(id_)) == (first.position, first.id)
    assert rest[:3] == ["orders", "a", 4]
    assert (rest[5], rest[7], rest[8], len(rest[9])) == (b'{"total": 10}', '{"a": "b"}', 2, ERROR_CHARACTERS_MAX)


async def test_to_park_again_is_harmless(place: Place, session: Session) -> None:
    """A settle that a fail-over forgot: the same message stands there once more, at another position."""
    place.add(row(key="a"))
    (message,) = await session.pending(LANE, 10)
    await session.park([(message, "first")])
    await session.park([(message, "nothing is there any more")])
    place.add(row(id=message.id, key="a"))
    (again,) = await session.pending(LANE, 10)
    await session.park([(again, "second"), (again, "second")])
    assert await session.pending(LANE, 10) == []
    rows = place.ask(f"SELECT seq, reason FROM {place.options.prefix}parked")
    assert rows == [(again.position, "second")]


async def test_positions_up_to_a_reserved_one_are_not_handed_out(place: Place, session: Session) -> None:
    """A15: also before the very first message."""
    assert await session.reserve(20)
    assert not await session.reserve(20)
    assert not await session.reserve(3)
    ((first, _),) = place.add(row())
    assert first == 21
    assert not await session.reserve(first)
    assert await session.reserve(first + 1)
    assert place.add(row())[0][0] == first + 2


async def test_positions_are_never_handed_out_again(place: Place, session: Session) -> None:
    """C5: also where the last one was settled."""
    added = place.add(row(), row())
    await session.settle(added)
    ((next_one, _),) = place.add(row())
    assert next_one == added[-1][0] + 1


async def test_a_truncated_table_is_an_empty_one(place: Place, session: Session) -> None:
    """C6: the relay goes on; what comes next is read."""
    added = place.add(row(), row())
    place.ask(f"DELETE FROM {place.outbox}" if place.name == "sqlite" else f"TRUNCATE {place.outbox}")
    assert await session.settle(added) == 0
    assert await session.pending(LANE, 10) == []
    later = place.add(row())
    assert pairs(await session.pending(LANE, 10)) == later


async def test_a_call_may_be_given_up_without_harm(place: Place, session: Session, connect: Connect) -> None:
    """On MariaDB it takes its connection along: a session is lost by it, and a new one finds everything in order."""
    added = place.add(*(row(key=f"k{i}") for i in range(50)))
    for turns in range(6):
        calls = [asyncio.ensure_future(session.pending(LANE, 100)), asyncio.ensure_future(session.settle(added[:5]))]
        for _ in range(turns):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        session = await connect(place) if place.name == "mysql" else session
    await session.settle(added[:5])
    assert pairs(await session.pending(LANE, 100)) == added[5:]


async def test_a_closed_session_is_over(place: Place, session: Session) -> None:
    async def wait() -> None:
        while True:  # it may return early
            await session.wait(LANE, 60)

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0.05)
    await session.close()
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(waiting, 2)
    for call in (session.pending(LANE, 1), session.settle([(1, row()["id"])]), session.wait(LANE, 1)):
        with pytest.raises(ConnectionLost):
            await call
    await session.close()


async def test_to_close_ends_a_call_that_runs(place: Place, session: Session) -> None:
    place.add(*(row() for _ in range(100)))
    calls = [asyncio.ensure_future(session.pending(LANE, 100)) for _ in range(20)]
    await asyncio.sleep(0)
    await session.close()
    results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 2)
    assert all(isinstance(r, (list, ConnectionLost)) for r in results)
    assert any(isinstance(r, ConnectionLost) for r in results)
