"""A play on a real database ends, whatever its parties do, and with it both transactions."""

from __future__ import annotations

import pytest

from fencepost.testing.interleave import History, Stuck
from tests.interleavings.place import Place, about


async def forgets_to_commit(place: Place) -> None:
    await place.left.say("begin", place.begin)
    await place.left.add(about("1"))


async def writes(place: Place) -> None:
    async with place.right.transaction():
        await place.right.add(about("1"))


async def nothing(_: Place, __: History) -> None:
    """Nothing to check."""


async def test_a_lock_that_is_left_behind_ends_at_the_deadline(place: Place) -> None:
    with pytest.raises(Stuck, match=r"within 1 s: .*\(R waits\)$"):
        await place.run(forgets_to_commit, writes, nothing, deadline_s=1.0)
    assert [place.left.open, place.right.open] == [False, False]
    await place.put(about("1"))
    assert [version for *_, version in await place.outbox()] == [1]


async def test_a_transaction_that_is_left_open_is_noticed_and_ended(place: Place) -> None:
    async def looks(place: Place) -> None:
        """Waits for nobody."""

    with pytest.raises(AssertionError, match=r"left open: \['L'\]"):
        await place.run(forgets_to_commit, looks, nothing)
    assert [place.left.open, place.right.open] == [False, False]
    assert await place.outbox() == []
