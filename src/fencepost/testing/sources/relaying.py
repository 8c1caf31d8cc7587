"""Rules that show when a relay reads the outbox: the real lane, and a broker in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import Unavailable
from fencepost.events import CircuitOpened, RelayFailed, RowsVanished
from fencepost.gate import Gate
from fencepost.message import Message
from fencepost.relay.lane import LaneOptions
from fencepost.testing.messages import message
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace
from fencepost.testing.relaying import Relayed, relayed
from fencepost.testing.sources.settling import named

BATCH = 100
BACKLOG = 10_000
LATE_S = 5.0
"""Ordinarily it takes milliseconds; the machine may be busy. A poll interval is much longer."""

OPTIONS = LaneOptions(batch=BATCH, poll_s=0.05, retry_base_s=0.01, retry_cap_s=0.02)


def at_one_second(count: int) -> list[Message]:
    """Messages of one second, the later ones with the earlier fraction: nothing but the position tells their order."""
    second = SYSTEM_CLOCK.now().replace(microsecond=0)
    moments = [second + timedelta(microseconds=(count - n) // 2) for n in range(count)]
    return [replace(message(), occurred_at=moment) for moment in moments]


class RelayingRules(OnDatabase):
    """Everything is published once, the oldest first, and what somebody else deletes is told."""

    async def test_a_backlog_is_published_from_its_oldest_message_on(self, place: OutboxPlace) -> None:
        """B6: ten thousand wait, a hundred are read at a time."""
        backlog = place.most(BACKLOG)
        added = [m.id for _ in range(10) for m in await place.fill(backlog // 10)]
        async with relayed(place.source, WHOLE, OPTIONS) as relay:
            await relay.until(lambda: len(relay.ids()) >= BATCH)
            assert relay.ids()[0] == added[0]
            await relay.until(lambda: len(relay.ids()) >= backlog, 300.0)
        assert relay.ids() == added
        assert (await place.source.backlog()).pending == 0

    async def test_messages_of_one_second_keep_their_order(self, place: OutboxPlace) -> None:
        """B4: times say nothing about order; they may be equal, and they may run backwards."""
        messages = at_one_second(1_000)
        added = [m.id for start in range(0, 1_000, 100) for m in await place.add(*messages[start : start + 100])]
        async with relayed(place.source, WHOLE, OPTIONS) as relay:
            await relay.until(lambda: len(relay.ids()) >= len(added))
        assert relay.ids() == added

    async def test_what_is_deleted_while_it_waits_is_told_and_the_relay_goes_on(self, place: OutboxPlace) -> None:
        """C6: the broker is down, and somebody empties the outbox meanwhile."""
        added = {m.id for m in await place.fill(5 * BATCH)}
        other = await place.session()
        async with relayed(place.source, WHOLE, OPTIONS) as relay:
            relay.server.gate.fail_next(10_000, Unavailable("the broker is down"), call="publish")
            await relay.until(lambda: len(relay.told(CircuitOpened)) >= 3)
            assert await other.settle(named(list(await other.pending(WHOLE, 1_000)))) == len(added)
            await relay.until(lambda: bool(relay.told(RowsVanished)))  # nothing that was read before is in hand now
            relay.server.gate = Gate(relay.server.url)  # the broker is up again
            later = [m.id for m in await place.fill(3)]
            await relay.until(lambda: len(relay.ids()) >= 3)
        assert relay.ids() == later
        told = relay.told(RowsVanished)  # more than once, where the database deletes row by row
        assert BATCH <= sum(one.rows for one in told) <= len(added)
        assert {message_id for one in told for message_id in one.message_ids} <= added
        assert relay.told(RelayFailed) == []

    async def test_a_message_waits_neither_for_the_poll_interval_nor_for_others(self, place: OutboxPlace) -> None:
        """D13: eight a second, and again after a silence in which the reader has stopped looking by itself."""
        async with relayed(place.source, WHOLE, replace(OPTIONS, poll_s=60.0)) as relay:
            for count, silence_s in ((8, 0.0), (4, 1.0)):
                await SYSTEM_CLOCK.sleep(silence_s)
                for _ in range(count):
                    (m,) = await place.fill(1, key="k")
                    began = SYSTEM_CLOCK.monotonic()
                    await relay.until(partial(_is_last, relay, m.id), LATE_S)
                    await SYSTEM_CLOCK.sleep(max(0.0, began + 0.125 - SYSTEM_CLOCK.monotonic()))
        assert len(relay.ids()) == 12


def _is_last(relay: Relayed, message_id: str) -> bool:
    return relay.ids()[-1:] == [message_id]
