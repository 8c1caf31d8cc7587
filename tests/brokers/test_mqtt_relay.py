"""A relay from SQLite to MQTT: what nobody is subscribed to stays, the others go on, and the cause is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import app
from fencepost.errors import GuaranteeUnavailable
from fencepost.events import Event, MessageParked, TopicHeld
from tests.brokers.mqtt_kit import OwnMosquitto, Subscriber
from tests.brokers.relays import add, configured, until, waiting


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnMosquitto]:
    """One where nobody else is subscribed."""
    with OwnMosquitto(tmp_path).running() as one:
        yield one


async def test_a_topic_that_nobody_is_subscribed_to_waits_alone(server: OwnMosquitto, tmp_path: Path) -> None:
    """Pending, never parked although one attempt is all there is; sent when somebody subscribes."""
    events = list[Event]()
    config = configured(server.url(), tmp_path)
    await app.schema(config).apply()
    add(tmp_path, "billing", "orders", "billing", "orders")
    relay = app.relay(config, events.append)
    async with Subscriber(server.url(), "orders") as subscriber:
        running = asyncio.ensure_future(relay.run())
        try:
            await until(lambda: waiting(tmp_path) == ["billing", "billing"])
            add(tmp_path, "orders")
            await until(lambda: waiting(tmp_path) == ["billing", "billing"])
            await subscriber.get(3)
            held = [event for event in events if isinstance(event, TopicHeld)]
            assert {event.topic for event in held} == {"billing"}
            assert all("nobody is subscribed" in event.cause for event in held)
            async with Subscriber(server.url(), "billing") as late:
                await until(lambda: waiting(tmp_path) == [])
                await late.get(2)
        finally:
            relay.stop()
            await running
    assert not any(isinstance(event, MessageParked) for event in events)


async def test_exactly_once_is_refused_with_what_can_be_had(server: OwnMosquitto, tmp_path: Path) -> None:
    config = configured(server.url(), tmp_path, RELAY__DELIVERY="exactly-once")
    await app.schema(config).apply()
    report = await app.check(config)
    assert (report.ok, report.delivery_possible, report.delivery_in_force) == (False, "at-least-once", None)
    (said,) = [finding for finding in report.findings if finding.level == "error"]
    assert "gives 'at-least-once' (MQTT keeps no receipts" in said.what
    assert 'delivery = "at-least-once"' in said.remedy
    with pytest.raises(GuaranteeUnavailable):
        await app.relay(config, list[Event]().append).run()
