"""A relay from SQLite to MQTT: what nobody is subscribed to stays, the others go on, and the cause is told."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fencepost import Outbox, app
from fencepost.config import Config, load
from fencepost.errors import GuaranteeUnavailable
from fencepost.events import Event, MessageParked, TopicHeld
from tests.brokers.mqtt_kit import OwnServer, Subscriber
from tests.services import url_of


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnServer]:
    """One where nobody else is subscribed."""
    url_of("mqtt")  # where there is none, its program may be missing, too
    one = OwnServer(tmp_path)
    try:
        one.start()
        yield one
    finally:
        one.kill()


def configured(url: str, folder: Path, **more: str) -> Config:
    """A relay from a file in the folder to the server."""
    values = {
        "RELAY__NAME": "orders",
        "RELAY__MAX_ATTEMPTS": "1",
        "RELAY__POLL_S": "0.05",
        "RELAY__RETRY_CAP_S": "0.2",
        "DATABASE__URL": f"sqlite:///{folder}/orders.db",
        "BROKER__URL": url,
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


async def test_a_topic_that_nobody_is_subscribed_to_waits_alone(server: OwnServer, tmp_path: Path) -> None:
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


async def test_exactly_once_is_refused_with_what_can_be_had(server: OwnServer, tmp_path: Path) -> None:
    config = configured(server.url(), tmp_path, RELAY__DELIVERY="exactly-once")
    await app.schema(config).apply()
    report = await app.check(config)
    assert (report.ok, report.delivery_possible, report.delivery_in_force) == (False, "at-least-once", None)
    (said,) = [finding for finding in report.findings if finding.level == "error"]
    assert "gives 'at-least-once' (MQTT keeps no receipts" in said.what
    assert 'delivery = "at-least-once"' in said.remedy
    with pytest.raises(GuaranteeUnavailable):
        await app.relay(config, list[Event]().append).run()
