"""The whole way with Redis: check, schema, a relay that drains, status."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fencepost import app, config
from fencepost.databases.redis import RedisOutbox
from fencepost.events import Event, Settled
from tests.redis_outbox.servers import redis_server

PREFIX = "{shop}:fencepost:"


def settings_of(url: str, name: str, **more: str) -> config.Config:
    variables = {
        "FENCEPOST_RELAY__NAME": name,
        "FENCEPOST_DATABASE__URL": url,
        "FENCEPOST_DATABASE__PREFIX": PREFIX,
        "FENCEPOST_BROKER__URL": f"memory://{name}",
    }
    return config.load(None, variables | more)


async def test_check_relay_and_status(tmp_path: Path, fresh_name: str) -> None:
    with redis_server(tmp_path / "off") as server, server.client() as client:
        settings = settings_of(server.url, fresh_name)
        report = await app.check(settings)
        assert report.ok
        warned = [finding.what for finding in report.findings if finding.level == "warning"]
        assert any("nothing is written to disk" in what for what in warned)
        fill(client, 25)
        assert await drained(settings) == 25
        status = await app.status(settings)
        assert (status.pending, status.delayed, status.parked) == (0, 0, 0)
        kept = {name.decode() for name in client.keys("*")}
        assert kept <= {f"{PREFIX}{each}" for each in ("outbox", "position", f"lease:{fresh_name}.0", *entities())}


def entities() -> list[str]:
    return [f"entity:{slot}" for slot in range(256)]


def fill(client: Any, count: int) -> None:
    outbox = RedisOutbox(prefix=PREFIX)
    with client.pipeline() as pipe:
        for n in range(count):
            outbox.add(pipe, "orders", {"n": n}, key=str(n % 3))
        pipe.execute()


async def drained(settings: config.Config) -> int:
    """Let a relay work until 25 messages are settled."""
    settled = 0

    def observe(event: Event) -> None:
        nonlocal settled
        if isinstance(event, Settled):
            settled += event.rows
            if settled >= 25:
                relay.stop()

    relay = app.relay(settings, observe)
    await asyncio.wait_for(relay.run(), 20.0)
    return settled


async def test_a_server_that_evicts_is_an_error_of_the_check(tmp_path: Path, fresh_name: str) -> None:
    limits = ("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-random", "--save", "")
    with redis_server(tmp_path / "cache", *limits) as server:
        report = await app.check(settings_of(server.url, fresh_name))
        assert not report.ok
        assert not report.waits
        assert any("noeviction" in (finding.remedy or "") for finding in report.findings)


def test_the_prefix_of_keys_is_for_redis_only(fresh_name: str) -> None:
    with pytest.raises(Exception, match="letters, digits or _"):
        settings_of("sqlite:///x.db", fresh_name)
