"""Random faults on servers in memory, two owners without any lease: nothing lost, repeated or reordered."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import replace

import pytest

from fencepost.errors import Contention, FencepostError, StopError, Unavailable
from tests.relay.world import FAST, World, check_exactly_once, new_world

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a10_a15_chaos(seed: int) -> None:
    chance = random.Random(seed)
    world = new_world()
    world.server.gate.latency_s = world.database.gate.latency_s = 0.0005
    owners = [asyncio.create_task(_owner_for_ever(world, first_token, chance)) for first_token in (1, 1001)]
    try:
        await _write_and_disturb(world, chance)
        await world.drained(30.0)  # owners live for milliseconds, which a busy machine takes for less
    finally:
        for owner in owners:
            owner.cancel()
        await asyncio.gather(*owners, return_exceptions=True)
    check_exactly_once(world)


async def _owner_for_ever(world: World, token: int, chance: random.Random) -> None:
    """Own, die at a random moment or be fenced, come back."""
    options = replace(FAST, batch=chance.choice([1, 3, 10]))
    while True:
        token += 1
        with suppress(StopError, FencepostError, TimeoutError):
            await asyncio.wait_for(world.owner(token, options), timeout=chance.uniform(0.005, 0.2))
        await asyncio.sleep(chance.uniform(0, 0.02))


async def _write_and_disturb(world: World, chance: random.Random) -> None:
    for _ in range(60):
        if chance.random() < 0.2:
            await _late_commit(world, chance)
        else:
            world.commit(*chance.choices([*"abcde", None], k=chance.randint(1, 6)))
        _disturb(world, chance)
        await asyncio.sleep(chance.uniform(0, 0.004))


async def _late_commit(world: World, chance: random.Random) -> None:
    """A transaction on keys of its own that stays open while another one commits."""
    late = world.database.transaction()
    added = [late.add(world.message(key)) for key in chance.choices("xyz", k=2)]
    world.commit(*"ab")
    await asyncio.sleep(chance.uniform(0, 0.004))
    with suppress(FencepostError):
        late.commit()
        world.committed += added


def _disturb(world: World, chance: random.Random) -> None:
    fault = chance.random()
    if fault < 0.1:
        world.database.cut()
    elif fault < 0.2:
        world.server.cut()
    elif fault < 0.3:
        world.server.gate.lose_answers(1, call="publish")
    elif fault < 0.4:
        world.database.gate.lose_answers(1, call="settle")
    elif fault < 0.5:
        world.database.gate.fail_next(1, Contention("deadlock"), call="settle")
    elif fault < 0.6:
        world.server.gate.fail_next(1, Unavailable("down"), call="publish")
