"""What relays cost a database that has nothing for them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fencepost import app
from fencepost.config import Config, load
from fencepost.databases.postgresql import schema
from fencepost.ports import DatabaseOptions
from tests.relay.wire import CountingForwarder

STEADY_S = 6.0
WATCHED_S = 10.5  # two looks of a reader that waits for five seconds


def config(folder: Path, url: str) -> Config:
    """A relay as anybody configures it, but for the broker."""
    file = folder / "fencepost.toml"
    file.write_text(f'[relay]\nname = "orders"\n[database]\nurl = "{url}"\n[broker]\nurl = "memory://idle"\n')
    return load(file, {})


@pytest.mark.slow
@pytest.mark.parametrize("standbys", [1, pytest.param(49, marks=pytest.mark.long)])
async def test_d10_an_idle_relay_sends_less_than_a_statement_a_second(
    fresh_database: str, tmp_path: Path, standbys: int
) -> None:
    """The one that leads, and each that stands by; all of its connections together."""
    await schema(DatabaseOptions(url=fresh_database)).apply()
    async with AsyncExitStack() as relays:
        wires = [CountingForwarder(fresh_database) for _ in range(1 + standbys)]
        for wire in wires:
            await relays.enter_async_context(wire)
            await relays.enter_async_context(app.relaying(config(tmp_path, wire.url)))
        await asyncio.sleep(STEADY_S)
        for wire in wires:
            assert len([moment for moments in wire.times_s.values() for moment in moments]) > 5, "the counter counts"
            wire.times_s.clear()
        await asyncio.sleep(WATCHED_S)
        rates = [wire.per_second(WATCHED_S) for wire in wires]
    assert min(rates) > 0.0
    assert max(rates) < 1.0, rates
