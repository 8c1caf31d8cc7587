"""Rules of sessions: one connection, from connect to its first trouble, and dead ever after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import ConnectionLost, FencepostError, RetryError
from fencepost.message import Stored
from fencepost.ports import Session
from fencepost.testing.harness import Cutting, Replacing
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace

END_S = 3.0
"""How soon a call ends after its session has."""


def calls(session: Session, m: Stored) -> dict[str, Callable[[], Awaitable[object]]]:
    """Every call of a session but close."""
    return {
        "pending": lambda: session.pending(WHOLE, 10),
        "below": lambda: session.below(WHOLE, m.position, 10),
        "settle": lambda: session.settle([(m.position, m.id)]),
        "held": lambda: session.held([(m.position, m.position)]),
        "reserve": lambda: session.reserve(m.position),
        "in_doubt": lambda: session.in_doubt([m], 1),
        "failed": lambda: session.failed([(m, "bad")]),
        "park": lambda: session.park([(m, "bad")]),
        "release_due": lambda: session.release_due(10),
        "wait": lambda: session.wait(WHOLE, 0.1),
    }


async def all_lost(session: Session, m: Stored, *, only: str | None = None) -> list[str]:
    """The calls, or that one, that do not raise ConnectionLost."""
    wrong = []
    for name, call in calls(session, m).items():
        if only not in (None, name):
            continue
        try:
            await asyncio.wait_for(call(), END_S)
        except ConnectionLost:
            continue
        except FencepostError as error:
            name += f" ({type(error).__name__})"
        except TimeoutError:
            name += " (does not end)"
        wrong.append(name)
    return wrong


async def _wait_for_ever(session: Session) -> None:
    while True:
        await session.wait(WHOLE, 60.0)


async def _backed_up(place: OutboxPlace) -> Replacing:
    """The writer, with a copy of the database as it is now."""
    if not isinstance(place.writer, Replacing):
        pytest.skip(f"{place.database} is no file that could be replaced")
    await place.writer.back_up()
    return place.writer


class SessionRules(OnDatabase):
    """A session never reconnects by itself: whoever uses it must learn that the connection is another one."""

    async def test_every_call_on_a_closed_session_raises_connection_lost(self, place: OutboxPlace) -> None:
        await place.fill(1)
        session = await place.session()
        (m,) = await session.pending(WHOLE, 10)
        await session.close()
        assert await all_lost(session, m) == []
        assert list(await (await place.session()).pending(WHOLE, 10)) == [m]

    async def test_closing_twice_is_harmless_and_others_go_on(self, place: OutboxPlace) -> None:
        await place.fill(1)
        session, other = await place.session(), await place.session()
        await session.close()
        await session.close()
        assert len(await other.pending(WHOLE, 10)) == 1

    async def test_closing_ends_a_wait(self, place: OutboxPlace) -> None:
        session = await place.session()
        await session.pending(WHOLE, 10)
        waiting = asyncio.ensure_future(session.wait(WHOLE, 60.0))
        await SYSTEM_CLOCK.sleep(0.2)
        await asyncio.wait_for(session.close(), END_S)
        with suppress(ConnectionLost):
            await asyncio.wait_for(waiting, END_S)

    async def test_a_cancelled_call_leaves_the_session_in_order_or_lost(self, place: OutboxPlace) -> None:
        """A relay that gives up a read goes on with the session: never with an answer of the call before."""
        await place.fill(place.most(2_000))
        for turns in (1, 2, 3, 5, 8):
            session = await place.session()
            reading = asyncio.ensure_future(session.pending(WHOLE, 2_000))
            for _ in range(turns):
                await SYSTEM_CLOCK.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            try:
                (m,) = await session.pending(WHOLE, 1)
                assert list(await session.held([(m.position, m.position)])) == [(m.position, m.id)]
            except ConnectionLost:
                assert await all_lost(session, (await (await place.session()).pending(WHOLE, 1))[0]) == []

    async def test_a_cancelled_wait_leaves_the_session_in_order_or_lost(self, place: OutboxPlace) -> None:
        (m,) = await place.fill(1)
        session = await place.session()
        await session.pending(WHOLE, 10)
        waiting = asyncio.ensure_future(session.wait(WHOLE, 60.0))
        await SYSTEM_CLOCK.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        with suppress(ConnectionLost):
            assert [f.id for f in await session.pending(WHOLE, 10)] == [m.id]
            await asyncio.wait_for(session.wait(WHOLE, 0.1), END_S)

    async def test_a_connection_that_is_cut_is_lost_for_good(self, place: OutboxPlace) -> None:
        """D5, F2: the database ended it; a new session works at once."""
        await place.fill(1)
        session = await self._session_to_cut(place)
        (m,) = await (await place.session()).pending(WHOLE, 10)
        with pytest.raises(RetryError):
            await asyncio.wait_for(session.pending(WHOLE, 10), END_S)
        assert await all_lost(session, m) == []
        assert list(await (await place.session()).pending(WHOLE, 10)) == [m]

    async def test_a_wait_notices_that_the_connection_is_cut(self, place: OutboxPlace) -> None:
        session = await self._session_to_cut(place, then_wait=True)
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(session.wait(WHOLE, 0.1), END_S)

    async def test_a_session_of_a_file_that_was_replaced_is_lost(self, place: OutboxPlace) -> None:
        """A15: no call reads or settles in what is no longer there, whichever comes first; a new session sees the
        backup.
        """
        (kept,) = await place.fill(1)
        writer = await _backed_up(place)
        await place.fill(1)
        first = await place.session()
        m = (await first.pending(WHOLE, 10))[-1]
        sessions = {name: await place.session() for name in calls(first, m)}
        for session in sessions.values():
            assert len(await session.pending(WHOLE, 10)) == 2
        await writer.put_back()
        unaware = [wrong for name, session in sessions.items() for wrong in await all_lost(session, m, only=name)]
        assert unaware == [], "calls that went on with a file that is no longer there"
        assert [one.id for one in await (await place.session()).pending(WHOLE, 10)] == [kept.id]

    async def test_a_wait_notices_that_the_file_was_replaced(self, place: OutboxPlace) -> None:
        writer = await _backed_up(place)
        session = await place.session()
        await session.pending(WHOLE, 10)
        waiting = asyncio.ensure_future(_wait_for_ever(session))
        await SYSTEM_CLOCK.sleep(0.2)
        await writer.put_back()
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(waiting, END_S)

    async def _session_to_cut(self, place: OutboxPlace, *, then_wait: bool = False) -> Session:
        """A session whose connection the server has ended, while it waited where ``then_wait``."""
        writer = place.writer
        before = await writer.connections() if isinstance(writer, Cutting) else None
        if not isinstance(writer, Cutting) or before is None:
            pytest.skip(f"{place.database} has no connections that could be cut")
        session = await place.session()
        await session.pending(WHOLE, 10)
        mine = set(await writer.connections() or ()) - set(before)
        assert mine, "the writer does not see the session's connection"
        if not then_wait:
            await writer.cut(mine)
            return session
        waiting = asyncio.ensure_future(_wait_for_ever(session))
        await SYSTEM_CLOCK.sleep(0.2)
        await writer.cut(mine)
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(waiting, END_S)
        return session
