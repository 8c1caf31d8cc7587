"""A relay from SQLite to RabbitMQ: rows that cannot be routed stay, the others go on, and the cause is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fencepost import app
from fencepost.errors import GuaranteeUnavailable
from fencepost.events import Event, MessageFailed, MessageParked, TopicHeld
from tests.brokers.rabbitmq_kit import Place
from tests.brokers.relays import add, configured, until, waiting


@pytest.fixture
async def place(rabbitmq_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """Names of the test's own on the shared server."""
    one = Place(rabbitmq_url, fresh_name)
    yield one
    await one.drop()


@pytest.mark.parametrize("routing_key", ["{topic}", "{topic}.{type}"])
async def test_a_topic_that_nothing_is_bound_for_waits_alone(place: Place, tmp_path: Path, routing_key: str) -> None:
    """C3: pending, never parked although one attempt is all there is; sent when a queue is bound."""
    exchange, events = await place.exchange(place.name), list[Event]()
    queue = await place.queue(f"{place.name}.q", "orders.#", exchange=exchange)
    settings = {"BROKER__EXCHANGE": exchange, "BROKER__ROUTING_KEY": routing_key, "BROKER__CREATE": "false"}
    config = configured(place.url, tmp_path, **settings)
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
    config = configured(place.url, tmp_path, RELAY__DELIVERY="exactly-once")
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
    config = configured(place.url, tmp_path, BROKER__EXCHANGE=place.name, BROKER__CREATE="false")
    await app.schema(config).apply()
    report = await app.check(config)
    (finding,) = [finding for finding in report.findings if finding.level == "error"]
    assert f"there is no exchange '{place.name}'" in finding.what
    assert "type topic" in finding.remedy
