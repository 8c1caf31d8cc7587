"""A relay in an application's own event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fencepost import app
from fencepost.config import Config, load
from fencepost.errors import SchemaMissing, Unavailable
from tests.relay.world import World, check_exactly_once, new_world


def config(tmp_path: Path, world: World) -> Config:
    file = tmp_path / "fencepost.toml"
    file.write_text(
        f'[relay]\nname = "orders"\n[database]\nurl = "{world.url}"\n'
        f'[broker]\nurl = "{world.url}"\n[lease]\nurl = "{world.url}"\n'
    )
    return load(file, {})


async def test_it_works_while_the_context_lasts_and_drains_at_its_end(tmp_path: Path) -> None:
    world = new_world()
    async with app.relaying(config(tmp_path, world)) as relay:
        world.commit("a", "b")
        await world.drained()
        at_work = not relay.ended
    assert at_work
    assert (relay.ended, relay.error) == (True, None)
    world.commit("c")
    await asyncio.sleep(0.05)
    assert len(world.database.rows) == 1, "nobody works any more"
    world.committed.pop()
    check_exactly_once(world)


async def test_a_server_that_is_down_does_not_hold_the_application_up(tmp_path: Path) -> None:
    world = new_world()
    world.server.gate.fail_next(3, Unavailable("the broker is down"))
    async with app.relaying(config(tmp_path, world)) as relay:
        assert relay.circuit.cause == "the broker is down"
        world.commit("a")
        await world.drained()
        assert relay.circuit.cause is None


async def test_what_a_person_must_mend_is_raised_on_entering(tmp_path: Path) -> None:
    world = new_world()
    world.database.gate.fail_next(1, SchemaMissing("no table"))
    with pytest.raises(SchemaMissing):
        async with app.relaying(config(tmp_path, world)):
            pytest.fail("it must not be entered")
