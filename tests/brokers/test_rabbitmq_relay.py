"""A relay from SQLite to RabbitMQ: rows that cannot be routed stay, the others go on, and the cause is told."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from fencepost import Outbox, app
from fencepost.config import Config, load
from fencepost.errors import GuaranteeUnavailable
from fencepost.events import Event, MessageFailed, MessageParked, TopicHeld
from tests.brokers.rabbitmq_kit import Place


@pytest.fixture
async def place(rabbitmq_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """Names of the test's own on the shared server."""
    one = Place(rabbitmq_url, fresh_name)
    yield one
    await one.drop()


def configured(place: Place, folder: Path, **more: str) -> Config:
    """A relay from a file in the folder to the place."""
    values = {
        "RELAY__NAME": place.name,
        "RELAY__MAX_ATTEMPTS": "1",
        "RELAY__POLL_S": "0.05",
        "RELAY__RETRY_CAP_S": "0.2",
        "DATABASE__URL": f"sqlite:///{folder}/orders.db",
        "BROKER__URL": place.url,
        **more,
    }
    return load(None, {f"FENCEPOST_{name}": value for name, value in values.items()})


def add(folder: Path, *topics: str) -> None:
    """Commit one message on each topic."""
    with closing(sqlite3.connect(folder / "orders.db")) as connection, connection:
        for number, topic in enumerate(topics):
            Outbox().add(connection, topic, {"number": number}, key=f"{topic}-{number}")


def waiting(folder: Path) -> list[str]:
    """The topics of the rows in the outbox."""
    with closing(sqlite3.connect(folder / "orders.db")) as connection:
        return [topic for (topic,) in connection.execute("SELECT topic FROM fencepost_outbox ORDER BY seq")]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("routing_key", ["{topic}", "{topic}.{type}"])
async def test_a_topic_that_nothing_is_bound_for_waits_alone(place: Place, tmp_path: Path, routing_key: str) -> None:
    """C3: pending, never parked although one attempt is all there is; sent when a queue is bound."""
    exchange, events = await place.exchange(place.name), list[Event]()
    queue = await place.queue(f"{place.name}.q", "orders.#", exchange=exchange)
    config = configured(
        place, tmp_path, BROKER__EXCHANGE=exchange, BROKER__ROUTING_KEY=routing_key, BROKER__CREATE="false"
    )
    await app.schema(config).apply()
    add(tmp_path, "billing", "orders", "billing", "orders")
    relay = app.relay(config, events.append)
    running = asyncio.ensure_future(relay.run())
    try:
        await until(lambda: waiting(tmp_path) == ["billing", "billing"])
        add(tmp_path, "orders")
        await until(lambda: waiting(tmp_path) == ["billing", "billing"])
        kind = TopicHeld if routing_key == "{topic}" else MessageFailed
        causes = [event.cause for event in events if isinstance(event, TopicHeld | MessageFailed)]
        assert any(isinstance(event, kind) for event in events)
        assert all("nothing is bound to the exchange" in cause and "'billing" in cause for cause in causes)
        assert not any(isinstance(event, MessageParked) for event in events)
        assert len(await place.ids(queue)) == 3
        await place.queue(queue, "billing.#", exchange=exchange)
        await until(lambda: waiting(tmp_path) == [])
    finally:
        relay.stop()
        await running
    assert len(await place.ids(queue)) == 2


async def test_exactly_once_is_refused_with_what_can_be_had(place: Place, tmp_path: Path) -> None:
    config = configured(place, tmp_path, RELAY__DELIVERY="exactly-once")
    await app.schema(config).apply()
    report = await app.check(config)
    assert not report.ok
    assert (report.delivery_possible, report.delivery_in_force) == ("at-least-once", None)
    said = [(finding.what, finding.remedy) for finding in report.findings if finding.level == "error"]
    assert len(said) == 1
    assert "gives 'at-least-once' (RabbitMQ has no fence" in said[0][0]
    assert 'delivery = "at-least-once"' in said[0][1]
    with pytest.raises(GuaranteeUnavailable):
        await app.relay(config, list[Event]().append).run()


async def test_the_check_says_which_exchange_is_missing(place: Place, tmp_path: Path) -> None:
    """C3"""
    config = configured(place, tmp_path, BROKER__EXCHANGE=place.name, BROKER__CREATE="false")
    await app.schema(config).apply()
    report = await app.check(config)
    (finding,) = [finding for finding in report.findings if finding.level == "error"]
    assert f"there is no exchange '{place.name}'" in finding.what
    assert "type topic" in finding.remedy
