"""A RabbitMQ that is down, stuck, full, restarted or does not let us in: a server of the tests' own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fencepost.brokers.rabbitmq.broker import RabbitBroker
from fencepost.errors import (
    AccessDenied,
    DeadlineExceeded,
    FixError,
    ParkError,
    RetryError,
    Unavailable,
)
from fencepost.message import Position, Stored
from fencepost.ports import BrokerOptions, Handoff
from fencepost.testing.readers.rabbitmq import reader
from tests.brokers.rabbitmq_kit import LIMIT_BYTES, OwnRabbit, Place
from tests.brokers.rows import row, rows, term
from tests.services import free_port

RESTARTED = "restarted"
"""A queue that is there from the start. What was declared within its last two seconds, a server that is killed may
forget, whatever it has confirmed.
"""
_REMEMBERED_S = 4.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRabbit]:
    """One for all: it takes some seconds to start."""
    with OwnRabbit(tmp_path_factory.mktemp("rabbitmq")).running() as one:
        asyncio.run(Place(one.url(), RESTARTED).queue(RESTARTED, arguments={"x-queue-type": "quorum"}))
        one.declared_at = time.monotonic()
        yield one


@pytest.fixture
def place(server: OwnRabbit, fresh_name: str) -> Place:
    """Names of the test's own there."""
    return Place(server.url(), fresh_name)


# -- not there -----------------------------------------------------------------------------------------------------


async def test_the_second_server_of_a_list_is_used(server: OwnRabbit, fresh_name: str) -> None:
    url = server.url().replace(server.host, f"127.0.0.1:{free_port()},{server.host}")
    broker = Place(url, fresh_name).broker()
    await broker.open()
    await broker.close()


# -- not for us ----------------------------------------------------------------------------------------------------


async def test_a_wrong_password(server: OwnRabbit, fresh_name: str) -> None:
    broker = Place(server.url().replace("p%40ss", "secret-word"), fresh_name).broker()
    with pytest.raises(AccessDenied, match="Login was refused") as caught:
        await broker.open()
    assert "secret-word" not in str(caught.value)
    await broker.close()


@pytest.mark.parametrize(("user", "vhost"), [("guest", "nowhere"), ("stranger", ""), ("writer", "shop%2Fone")])
async def test_a_vhost_that_is_missing_or_not_permitted(
    server: OwnRabbit, fresh_name: str, user: str, vhost: str
) -> None:
    broker = Place(server.url(user, vhost), fresh_name).broker()
    with pytest.raises(AccessDenied, match="does not open the vhost"):
        await broker.open()
    await broker.close()


async def test_a_vhost_with_a_slash(server: OwnRabbit, fresh_name: str) -> None:
    broker = Place(server.url(vhost="shop%2Fone"), fresh_name).broker()
    await broker.open()
    await broker.close()


async def test_a_server_without_tls(server: OwnRabbit, fresh_name: str) -> None:
    broker = Place(server.url().replace("amqp:", "amqps:"), fresh_name).broker(timeout_s=5)
    with pytest.raises((FixError, RetryError)):
        await broker.open()
    await broker.close()


async def test_what_may_not_be_created(server: OwnRabbit, place: Place) -> None:
    writer = Place(server.url("writer"), place.name)
    broker = writer.broker(exchange=place.name)
    with pytest.raises(AccessDenied, match="creating the exchange"):
        await broker.take_over(writer.lane, term())
    await broker.close()
    async with writer.handoff() as handoff:
        outcome = await handoff.publish(rows(1, topic=place.name))
    assert isinstance(outcome.failed[0].error, AccessDenied)
    assert "creating the queue" in str(outcome.failed[0].error)


async def test_an_exchange_that_may_not_be_written_to_holds_back_its_own_messages(
    server: OwnRabbit, place: Place
) -> None:
    queue = await place.queue(f"{place.name}.q", "", exchange=await place.exchange("open", "fanout"))
    await place.exchange("closed", "fanout")
    writer = Place(server.url("writer"), place.name)
    good, bad = rows(4, topic="open"), rows(2, start=10, topic="closed")
    broker = writer.broker(exchange="{topic}", create=False)
    handoff = await broker.take_over(writer.lane, term())
    with pytest.raises(RetryError, match="refused one of 6 messages"):
        await handoff.publish([*bad, *good])
    await handoff.close()
    handoff = await broker.take_over(writer.lane, term())
    outcome = await handoff.publish([*bad, *good])
    assert outcome.published == good
    assert [type(failure.error) for failure in outcome.failed] == [AccessDenied, AccessDenied]
    await broker.close()
    assert await place.ids(queue) == [m.id for m in good]
    await place.drop()


async def test_the_rights_of_the_documentation_suffice(server: OwnRabbit, fresh_name: str) -> None:
    given: dict[str, Any] = {"exchange": "shop", "queues.billing": ["orders"]}
    for user, create in (("creator", True), ("sender", False)):
        place, batch = Place(server.url(user, "shop"), fresh_name), rows(3)
        async with place.handoff(create=create, **given) as handoff:
            assert (await handoff.publish(batch)).published == batch
        broker = place.broker(create=create, **given)
        await broker.rehearse(place.lane)
        await broker.close()
        assert await Place(server.url(vhost="shop"), fresh_name).ids("billing") == [m.id for m in batch]


async def test_the_servers_own_limit_is_learnt(place: Place) -> None:
    """E1: it closes the channel without saying for which message; the limit that it tells finds it."""
    queue = await place.queue(place.name)
    large, good = row(1, queue, key="large", payload=bytes(LIMIT_BYTES + 1)), rows(3, start=2, topic=queue)
    broker = place.broker()
    handoff = await broker.take_over(place.lane, term())
    with pytest.raises(RetryError, match="larger than"):
        await handoff.publish([large, *good])
    await handoff.close()
    handoff = await broker.take_over(place.lane, term())
    outcome = await handoff.publish([large, *good])
    assert outcome.published == good
    (failure,) = outcome.failed
    assert isinstance(failure.error, ParkError)
    assert failure.at_once
    assert f"{LIMIT_BYTES:,}" in str(failure.error)
    assert (await broker.open()).message_bytes_max == LIMIT_BYTES
    await broker.close()
    assert await place.ids(queue) == [m.id for m in good]
    await place.drop()


# -- stuck, full, restarted ----------------------------------------------------------------------------------------


async def test_a_server_that_stops_answering(server: OwnRabbit, place: Place) -> None:
    """B7: a deadline, and nothing that hangs afterwards."""
    queue = await place.queue(place.name)
    broker = place.broker(timeout_s=0.5)
    handoff = await broker.take_over(place.lane, term())
    await handoff.publish(rows(1, topic=queue))
    began = time.monotonic()
    with server.stopped():
        with pytest.raises(DeadlineExceeded, match=r"0\.5 s"):
            await handoff.publish(rows(3, topic=queue))
        with pytest.raises(DeadlineExceeded):
            await broker.take_over(place.lane, term())
        await handoff.close()
        await broker.close()
    assert time.monotonic() - began < 5
    await place.drop()


async def test_a_server_with_an_alarm_blocks_and_says_so(server: OwnRabbit, place: Place) -> None:
    """It is waited for until the deadline; the next take-over waits too, and sends nothing meanwhile."""
    queue = await place.queue(place.name)
    (message,) = rows(1, topic=queue)
    broker = place.broker(timeout_s=1.0)
    handoff = await broker.take_over(place.lane, term())
    await server.control("set_disk_free_limit", "1000000000000000")
    with pytest.raises(Unavailable, match="has blocked publishers") as caught:
        await handoff.publish([message])
    assert "alarms" in caught.value.remedy
    await handoff.close()
    with pytest.raises(Unavailable, match="has blocked publishers"):
        await broker.take_over(place.lane, term())
    waiting = asyncio.ensure_future(_until_taken_over(broker, place))
    await server.control("set_disk_free_limit", "1000000")
    handoff = await waiting
    assert (await handoff.publish([message])).published == [message]
    await broker.close()
    assert set(await place.ids(queue)) == {message.id}
    await place.drop()


async def _until_taken_over(broker: RabbitBroker, place: Place) -> Handoff:
    for _ in range(20):
        try:
            return await broker.take_over(place.lane, term())
        except Unavailable:
            continue
    raise AssertionError("the alarm does not end")


@pytest.mark.slow
async def test_a_server_that_is_killed_and_comes_back_under_load(server: OwnRabbit, place: Place) -> None:
    """C2, C4: whatever was confirmed is there, and what was not is sent again; order per key is kept."""
    await asyncio.sleep(max(0.0, server.declared_at + _REMEMBERED_S - time.monotonic()))
    relayed = Relayed(place.broker(timeout_s=10), place, rows(3_000, topic=RESTARTED, keys=100))
    publishing = asyncio.ensure_future(relayed.run())
    while len(relayed.done) < 500:
        await asyncio.sleep(0.001)
    server.kill()
    assert len(relayed.done) < 3_000, "it was over before the server died"
    await asyncio.to_thread(server.start)
    await asyncio.wait_for(publishing, 60)
    assert relayed.taken_over > 1
    one = reader(BrokerOptions(url=place.url, source="/shop"))
    seen = [found.id for found in await one.read(RESTARTED)]
    await one.close()
    assert set(seen) == {m.id for m in relayed.todo}
    first = {id_: place for place, id_ in reversed(list(enumerate(seen)))}
    for key in {m.key for m in relayed.todo}:
        places = [first[m.id] for m in relayed.todo if m.key == key]
        assert places == sorted(places)


class Relayed:
    """What a relay does: one message of each key at a time, and after trouble it takes over again."""

    def __init__(self, broker: RabbitBroker, place: Place, todo: Sequence[Stored]) -> None:
        self.todo, self.done, self.taken_over = todo, set[Position](), 0
        self._broker, self._lane = broker, place.lane

    async def run(self) -> None:
        """Until everything is published."""
        while len(self.done) < len(self.todo):
            try:
                handoff = await self._broker.take_over(self._lane, term())
                self.taken_over += 1
                await self._publish(handoff)
            except RetryError:  # anything else is no fault that passes, and fails the test
                await asyncio.sleep(0.1)
        await self._broker.close()

    async def _publish(self, handoff: Handoff) -> None:
        try:
            while rest := [m for m in self.todo if m.position not in self.done]:
                batch = list({m.key: m for m in reversed(rest[:300])}.values())
                self.done |= {m.position for m in (await handoff.publish(batch)).published}
        finally:
            await handoff.close()
