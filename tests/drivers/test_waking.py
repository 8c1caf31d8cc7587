"""Writers wake a relay that sleeps, and only then: a notification costs every commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fencepost.outbox import AsyncOutbox
from fencepost.sql.outbox import Versions, channel
from tests.drivers.connections import DEADLINE_S, Add, Connect, add_batch, add_one, begun
from tests.drivers.ways import Place

BOTH = pytest.mark.parametrize("versions", ["counter", "position"])


@pytest.fixture
async def heard(postgresql: Place, connect: Connect) -> AsyncIterator[list[str]]:
    """The payloads of the notifications that arrive on the outbox's channel."""
    arrived: list[str] = []
    connection = await connect()

    def hear(_: Any, __: int, name: str, payload: object) -> None:
        arrived.append(str(payload))

    name = channel(postgresql.schema, postgresql.prefix)
    await connection.add_listener(name, hear)
    yield arrived
    await connection.remove_listener(name, hear)


async def set_lanes(postgresql: Place, asleep: list[bool]) -> None:
    lane = postgresql.tables.lane
    with postgresql.engine().begin() as connection:
        for index, value in enumerate(asleep):
            row = {"relay": "r", "lane": index, "first_slot": 0, "last_slot": 255, "asleep": value}
            connection.execute(lane.insert().values(row))


async def heard_until_now(postgresql: Place, heard: list[str], connect: Connect) -> list[str]:
    """What was heard before a last notification, which arrives behind all others."""
    connection = await connect()
    await connection.execute("SELECT pg_notify($1, 'last')", channel(postgresql.schema, postgresql.prefix))
    async with asyncio.timeout(DEADLINE_S):
        while "last" not in heard:
            await asyncio.sleep(0.005)
    return heard[: heard.index("last")]


@BOTH
@pytest.mark.parametrize("add", [add_one, add_batch])
@pytest.mark.parametrize(("asleep", "expected"), [([], 0), ([False], 0), ([True], 1), ([False, True, True], 1)])
async def test_a_writer_wakes_a_relay_that_sleeps_and_only_then(
    postgresql: Place,
    connect: Connect,
    heard: list[str],
    versions: Versions,
    add: Add,
    asleep: list[bool],
    expected: int,
) -> None:
    outbox = AsyncOutbox(versions=versions, **postgresql.names)
    await set_lanes(postgresql, asleep)
    connection = await connect()
    transaction = await begun(connection)
    for _ in range(3):
        await add(outbox, connection, "1")
    await outbox.add(connection, "orders", 0)
    await asyncio.sleep(0.05)
    assert heard == []
    await transaction.commit()
    assert await heard_until_now(postgresql, heard, connect) == [""] * expected


async def test_a_rolled_back_writer_wakes_nobody(postgresql: Place, connect: Connect, heard: list[str]) -> None:
    await set_lanes(postgresql, [True])
    connection = await connect()
    transaction = await begun(connection)
    await AsyncOutbox(**postgresql.names).add(connection, "orders", 0, key="1")
    await transaction.rollback()
    assert await heard_until_now(postgresql, heard, connect) == []
