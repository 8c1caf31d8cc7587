"""Routes with real brokers: one relay, Kafka and NATS, as processes that are killed."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from fencepost.cli.failures import FIX_NEEDED, OK
from fencepost.outbox import Outbox
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import reader_factory
from tests.brokers import kafka_kit
from tests.cli.process import Running, configuration, make_tables, run, running

ROUTES = """
[brokers.archive]
url = "{kafka}"

[routes.audit]
topics = "audit.*"
broker = "archive"
topic = "{name}-{{topic}}"

[routes.rest]
topics = "*"
topic = "{{header.tenant}}.{{topic}}"

[lease]
ttl_s = 1.0
"""


@pytest.fixture
def shop(nats_url: str, kafka_url: str, fresh_name: str, tmp_path: Path) -> Path:
    more = f'stream = "{fresh_name}"\nsubject_prefix = "{fresh_name}."\n' + ROUTES.format(
        kafka=kafka_url, name=fresh_name
    )
    configuration(tmp_path, database="sqlite:///orders.db", broker=nats_url, name=fresh_name, more=more)
    make_tables(tmp_path)
    return tmp_path


def add(folder: Path, numbers: range) -> dict[str, list[str]]:
    """Commit messages for both brokers; their ids in commit order by topic and key."""
    connection, outbox = sqlite3.connect(folder / "orders.db"), Outbox()
    added: dict[str, list[str]] = {}
    for number in numbers:
        topic, key = ("audit.login", "orders")[number % 2], f"k{number % 3}"
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            message = outbox.add(connection, topic, {"n": number}, key=key, headers={"tenant": "acme"})
        added.setdefault(f"{topic} {key}", []).append(message.id)
    connection.close()
    return added


def waiting(folder: Path) -> int:
    connection = sqlite3.connect(folder / "orders.db")
    try:
        return int(connection.execute("SELECT count(*) FROM fencepost_outbox").fetchone()[0])
    finally:
        connection.close()


def until_only(left: int, folder: Path, relay: Running) -> None:
    """Wait until no more than so many wait."""
    give_up = time.monotonic() + 30
    while waiting(folder) > left:
        assert time.monotonic() < give_up, relay.said()
        time.sleep(0.002)


async def arrived(nats_url: str, kafka_url: str, name: str) -> dict[str, list[str]]:
    settings: Mapping[str, object] = {"stream": name, "subject_prefix": f"{name}."}
    reader = reader_factory("nats")(BrokerOptions(url=nats_url, source="/t", settings=settings))
    try:
        found: dict[str, list[str]] = {}
        for seen in await reader.read("acme.orders"):
            found.setdefault(f"orders {seen.attributes['subject']}", []).append(seen.id)
        assert not await reader.read(f"{name}-audit.login")
    finally:
        await reader.close()
    for record in kafka_kit.read(kafka_url, f"{name}-audit.login"):
        headers = kafka_kit.headers(record)
        found.setdefault(f"audit.login {headers['ce_subject']}", []).append(headers["ce_id"])
    return found


async def test_kafka_and_nats_behind_one_relay_that_is_killed(
    shop: Path, nats_url: str, kafka_url: str, fresh_name: str
) -> None:
    checked = run("check", cwd=shop)
    assert checked.returncode == OK, checked.stdout
    assert (kafka_url in checked.stdout, nats_url in checked.stdout) == (True, True)
    expected: dict[str, list[str]] = {}
    for turn in range(3):
        for place, ids in add(shop, range(turn * 300, turn * 300 + 300)).items():
            expected.setdefault(place, []).extend(ids)
        with running("relay", cwd=shop) as relay:
            relay.until('"event": "taken_over"')
            until_only(100 if turn < 2 else 0, shop, relay)
            relay.ended(signal.SIGKILL if turn < 2 else signal.SIGTERM)
    assert waiting(shop) == 0
    assert await arrived(nats_url, kafka_url, fresh_name) == expected


def test_a_wrong_broker_of_several_is_told(shop: Path) -> None:
    text = (shop / "fencepost.toml").read_text()
    (shop / "fencepost.toml").write_text(text.replace('broker = "archive"', 'broker = "archives"'))
    result = run("relay", cwd=shop)
    assert result.returncode == FIX_NEEDED
    assert "there is no section [brokers.archives]" in result.stderr
    assert "did you mean 'archive'?" in result.stderr
