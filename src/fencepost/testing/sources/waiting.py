"""Rules of waiting: a commit wakes, and a timeout ends it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fencepost.clock import SYSTEM_CLOCK
from fencepost.ports import Session
from fencepost.testing.messages import message
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace

WAKE_S = 2.0
"""A commit wakes within this time. Ordinarily it takes milliseconds; the machine may be busy."""

LONG_S = 8.0

IDLE_ROUNDS_MAX = 20
"""Looks of the first second without a message: short waits at first are fine, always short ones are not."""


async def arrives(session: Session, message_id: str) -> None:
    """Read and wait, as a relay does, until the message is pending."""
    while message_id not in [m.id for m in await session.pending(WHOLE, 100)]:
        await session.wait(WHOLE, LONG_S)


async def woken_after(session: Session, timeout_s: float = LONG_S) -> float:
    """How long a wait lasted, in seconds."""
    started = SYSTEM_CLOCK.monotonic()
    await session.wait(WHOLE, timeout_s)
    return SYSTEM_CLOCK.monotonic() - started


class WaitingRules(OnDatabase):
    """Whoever has read everything is woken by the next commit, and never sleeps through one."""

    async def test_a_commit_of_another_connection_wakes(self, place: OutboxPlace) -> None:
        session = await place.session()
        for idle_s in (0.0, 0.05, 1.5):
            m = message("k")
            waiting = asyncio.create_task(arrives(session, m.id))
            await SYSTEM_CLOCK.sleep(idle_s)
            await place.add(m)
            await asyncio.wait_for(waiting, WAKE_S)

    async def test_a_commit_after_reading_and_before_waiting_wakes(self, place: OutboxPlace) -> None:
        session = await place.session()
        assert await woken_after(session, 0.1) < WAKE_S
        for _ in range(3):
            await session.pending(WHOLE, 100)
            await place.fill(1)
            assert await woken_after(session) < WAKE_S

    async def test_a_commit_that_follows_a_long_silence_wakes_each_time(self, place: OutboxPlace) -> None:
        """The reader has stopped looking by itself; it is woken, and goes back to sleep, and is woken again."""
        session = await place.session()
        with suppress(TimeoutError):
            await asyncio.wait_for(arrives(session, "none"), 1.0)
        for _ in range(3):
            m = message("k")
            waiting = asyncio.create_task(arrives(session, m.id))
            await SYSTEM_CLOCK.sleep(0.3)
            await place.add(m)
            await asyncio.wait_for(waiting, WAKE_S)

    async def test_a_transaction_that_was_open_when_reading_wakes(self, place: OutboxPlace) -> None:
        session = await place.session()
        async with place.writer.transaction() as transaction:
            (m,) = await transaction.add(message("k"))
            assert list(await session.pending(WHOLE, 10)) == []
            waiting = asyncio.create_task(arrives(session, m.id))
            await SYSTEM_CLOCK.sleep(0.3)
        await asyncio.wait_for(waiting, WAKE_S)

    async def test_without_a_commit_the_timeout_ends_the_wait(self, place: OutboxPlace) -> None:
        session = await place.session()
        await place.fill(1)
        await session.pending(WHOLE, 100)
        for timeout_s in (0.0, 0.05, 0.5):
            assert await woken_after(session, timeout_s) < timeout_s + WAKE_S

    async def test_an_idle_wait_mostly_lasts(self, place: OutboxPlace) -> None:
        """D10: it may return early, but an idle relay must not spin."""
        session = await place.session()
        started, rounds = SYSTEM_CLOCK.monotonic(), 0
        while SYSTEM_CLOCK.monotonic() - started < 1.0:
            await session.pending(WHOLE, 10)
            await session.wait(WHOLE, 1.0)
            rounds += 1
        assert rounds <= IDLE_ROUNDS_MAX

    async def test_two_sessions_are_woken_by_one_commit(self, place: OutboxPlace) -> None:
        sessions = [await place.session(), await place.session()]
        m = message("k")
        waits = [asyncio.create_task(arrives(session, m.id)) for session in sessions]
        await SYSTEM_CLOCK.sleep(0.3)
        await place.add(m)
        await asyncio.wait_for(asyncio.gather(*waits), WAKE_S)
