"""Parked messages of an outbox in Redis: versions that nobody counts, entries of somebody else, a relay that sleeps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fencepost.databases.redis import NewMessage, RedisOutbox, source
from fencepost.errors import FixError
from fencepost.ports import DatabaseOptions, Lane, ParkedFilter

LANE = Lane("orders")
EVERYTHING = ParkedFilter()


async def park_all(options: DatabaseOptions) -> None:
    session = await source(options).connect()
    await session.park([(row, "too large") for row in await session.pending(LANE, 100)])
    await session.close()


@pytest.mark.parametrize("kept", [False, True])
async def test_a_position_that_was_the_version_becomes_a_new_one_unless_it_is_kept(
    client: Any, options: DatabaseOptions, kept: bool
) -> None:
    outbox = RedisOutbox(prefix=options.prefix, versions="position")
    with client.pipeline() as pipe:
        outbox.add_all(pipe, [NewMessage("orders", 1, key="a"), NewMessage("orders", 2, key="a", version=70)])
        pipe.execute()
    await park_all(options)
    store = await source(options).parked()
    assert len(await store.retry(await store.page(EVERYTHING, 10), keep_versions=kept)) == 2
    await store.close()
    session = await source(options).connect()
    rows = await session.pending(LANE, 10)
    await session.close()
    assert [(row.position, row.version) for row in rows] == [(3, 1 if kept else 3), (4, 70)]
    assert not list(client.scan_iter(match=f"{options.prefix}entity*")), "nothing is counted there"


async def test_an_idle_session_is_woken_by_a_retry(client: Any, outbox: RedisOutbox, options: DatabaseOptions) -> None:
    with client.pipeline() as pipe:
        outbox.add(pipe, "orders", 1, key="a")
        pipe.execute()
    await park_all(options)
    session = await source(options).connect()
    assert await session.pending(LANE, 10) == []
    waiting = asyncio.create_task(session.wait(LANE, 30.0))
    store = await source(options).parked()
    await store.retry(await store.page(EVERYTHING, 10))
    await asyncio.wait_for(waiting, 10.0)
    assert len(await session.pending(LANE, 10)) == 1
    await session.close()
    await store.close()


async def test_what_is_no_message_is_told(client: Any, options: DatabaseOptions) -> None:
    client.xadd(f"{options.prefix}parked", {"a": "b"})
    store = await source(options).parked()
    with pytest.raises(FixError, match="what is no message"):
        await store.page(EVERYTHING, 10)
    await store.close()
