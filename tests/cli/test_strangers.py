"""A URL that leads to a server of another kind, or to none: told in time, and what to do about it."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

import pytest

from fencepost import app
from fencepost.app import Finding
from fencepost.config import load
from tests.cli.process import CLOSED

TIMEOUT_S, DYNAMODB_S = 1.0, 5.0  # its library tries three times, with pauses

DATABASES = {
    "postgresql://app@{}/shop": "is it another kind of server?",
    "mariadb://app@{}/shop": "speaks another protocol",
    "redis://{}/0": "speaks another protocol than Redis",
    "mongodb://{}/shop": "MongoDB",
    "dynamodb://eu-west-1/?endpoint=http://{}": "is it a DynamoDB that answers there?",
}
BROKERS = {"nats://{}": "is no NATS server", "kafka://{}": "what answers there may be no Kafka"}


async def found(part: str, database: str, broker: str = "memory://strangers") -> list[Finding]:
    """The errors of this part; of the database also those of a lease store at the same server, under another name."""
    leases = database.replace("/shop", "/leases").replace("/0", "/1").replace("eu-west-1/?", "eu-west-1/leases?")
    values = {"RELAY__NAME": "strangers", "DATABASE__URL": database, "LEASE__URL": leases, "BROKER__URL": broker}
    timeout_s = DYNAMODB_S if database.startswith("dynamodb") else TIMEOUT_S
    values |= {f"{name}__TIMEOUT_S": str(timeout_s) for name in ("DATABASE", "BROKER", "LEASE")}
    began_s = time.monotonic()
    report = await app.check(load(None, {f"FENCEPOST_{name}": value for name, value in values.items()}))
    assert time.monotonic() - began_s < 10
    errors = [finding for finding in report.findings if finding.level == "error"]
    assert {finding.part for finding in errors} == ({"database", "lease"} if part == "database" else {part})
    return errors


@pytest.mark.parametrize("url", DATABASES)
async def test_a_database_that_is_a_nats_server(url: str, nats_url: str) -> None:
    """It speaks first, so that it shows at once what it is."""
    for finding in await found("database", url.format(urlsplit(nats_url).netloc)):
        assert DATABASES[url] in finding.remedy, finding
        assert len(finding.what) < 700


@pytest.mark.parametrize("url", BROKERS)
async def test_a_broker_that_is_a_mariadb(url: str, mariadb_url: str) -> None:
    (finding,) = await found(
        "broker", "memory://strangers", url.format(urlsplit(mariadb_url).netloc.rpartition("@")[2])
    )
    assert BROKERS[url] in finding.remedy


@pytest.mark.parametrize("url", [*DATABASES, *BROKERS])
async def test_a_server_that_only_takes_connections(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        at = url.format(f"127.0.0.1:{listening.getsockname()[1]}")
        errors = await found("database", at) if url in DATABASES else await found("broker", "memory://strangers", at)
    for finding in errors:
        assert finding.passes
        assert any(word in finding.remedy for word in ("kind of server", "is it a ", "may be no ")), finding


@pytest.mark.parametrize("url", [*DATABASES, *BROKERS])
async def test_nobody_listens_there(url: str) -> None:
    at = url.format(CLOSED)
    errors = await found("database", at) if url in DATABASES else await found("broker", "memory://strangers", at)
    for finding in errors:
        assert finding.passes
        assert finding.remedy.startswith(("is the server running?", "is the cluster running?", "is a primary up,")), at
