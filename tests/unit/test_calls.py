"""The calls of one session: in time, over when it ends, refused ever after."""

from __future__ import annotations

import asyncio

import pytest

from fencepost.calls import Calls
from fencepost.errors import ConnectionLost, DeadlineExceeded, Unavailable


async def answers() -> int:
    await asyncio.sleep(0)
    return 1


async def hangs() -> int:
    await asyncio.Event().wait()
    return 1


async def unavailable() -> int:
    raise Unavailable("place: the disk is full")


async def is_lost() -> int:
    raise ConnectionLost("place: cut")


async def test_a_call_returns_what_it_returns() -> None:
    calls = Calls("place", 5.0)
    assert tuple(await asyncio.gather(calls.make(answers), calls.make(answers))) == (1, 1)
    calls.check()


async def test_a_call_that_does_not_answer_ends_the_session() -> None:
    calls = Calls("place", 0.02)
    with pytest.raises(DeadlineExceeded, match=r"^place did not answer within 0\.02 s$"):
        await calls.make(hangs)
    with pytest.raises(ConnectionLost, match="did not answer"):
        await calls.make(answers)


async def test_a_call_that_lost_the_connection_ends_the_session_and_another_error_does_not() -> None:
    calls = Calls("place", 5.0)
    with pytest.raises(Unavailable):
        await calls.make(unavailable)
    assert await calls.make(answers) == 1
    with pytest.raises(ConnectionLost):
        await calls.make(is_lost)
    with pytest.raises(ConnectionLost, match=r"^place: cut$"):
        await calls.make(answers)


async def test_the_end_ends_calls_that_are_running_and_the_first_cause_is_told() -> None:
    calls = Calls("place", 5.0)
    started = asyncio.Event()
    cancelled = asyncio.Event()

    async def call() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    making = asyncio.create_task(calls.make(call))
    await started.wait()
    calls.end("the session is closed")
    calls.end("again")
    with pytest.raises(ConnectionLost, match=r"^place: the session is closed$"):
        await making
    await asyncio.wait_for(cancelled.wait(), 1.0)
    with pytest.raises(ConnectionLost, match="the session is closed"):
        calls.check()


async def test_whoever_gives_up_a_call_cancels_it_and_keeps_the_session() -> None:
    calls = Calls("place", 5.0)
    making = asyncio.create_task(calls.make(hangs))
    await asyncio.sleep(0.01)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert await calls.make(answers) == 1


async def test_a_call_is_not_begun_after_the_end() -> None:
    calls, begun = Calls("place", 5.0), []
    calls.end("closed")

    async def call() -> None:
        begun.append(True)

    with pytest.raises(ConnectionLost):
        await calls.make(call)
    assert begun == []
