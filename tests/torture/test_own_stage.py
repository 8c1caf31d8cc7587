"""The reader of somebody else's broker plug-in as the reader of a torture."""

from __future__ import annotations

import asyncio

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import ConfigurationError
from fencepost.history import Entry
from fencepost.ports import BrokerOptions
from fencepost.testing.places import BrokerPlace, broker_place, fresh
from fencepost.testing.torture.own_stage import OwnStage

READER = "fencepost.testing.readers.memory"


def stage_of(place: BrokerPlace) -> OwnStage:
    return OwnStage(READER, SYSTEM_CLOCK, place.options, place.topic)


async def test_what_it_sees_is_told_with_its_mark() -> None:
    settings = {"delivery": "at-least-once"}
    async with broker_place("memory", f"memory://{fresh()}", settings=settings) as place:
        stage = stage_of(place)
        assert stage.settings == {}
        await stage.create()
        followed: list[Entry] = []
        async with asyncio.timeout(5), stage.following(followed.append):
            handoff = await place.owner()
            (keyed, bare) = place.batch("a", None)
            await handoff.publish([keyed, bare])
            await handoff.publish([keyed._replace(in_doubt=True)])
            expected = [Entry(keyed.id, "a", 1), Entry(bare.id), Entry(keyed.id, "a", 1, marked=True)]
            while len(followed) < len(expected):
                await asyncio.sleep(0.01)
        assert followed == expected
        assert await stage.read_back() == [expected]
        await stage.drop()
        assert await stage_of(place).read_back() == [[]], "its reader is closed: that of memory forgets"


async def test_a_reader_that_must_be_there_in_time_is_told_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    from fencepost.testing.readers import memory

    told: list[str] = []
    monkeypatch.setattr(memory.MemoryReader, "expect", lambda _, topic: told.append(topic), raising=False)
    stage = OwnStage(READER, SYSTEM_CLOCK, BrokerOptions(url=f"memory://{fresh()}", source="/x"), "orders")
    await stage.create()
    assert told == ["orders"]
    await stage.drop()


def test_a_module_without_a_reader_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"json.decoder has no reader\(options\)"):
        OwnStage("json.decoder", SYSTEM_CLOCK, BrokerOptions(url="memory://x", source="/x"), "orders")
