"""`fencepost status`, its look: what becomes of the parts that still work on their answer when another has failed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fencepost.app.status import Monitor, status
from fencepost.brokers import memory as brokers
from fencepost.clock import SYSTEM_CLOCK
from fencepost.config import load
from fencepost.databases import memory as databases
from fencepost.errors import AccessDenied, Unavailable

URL = "memory://status"


async def test_an_error_of_the_database_does_not_leave_another_part_under_way() -> None:
    """A connection that is just being made when everything is closed would be nobody's, and stay open."""
    database, broker = databases.database(URL), brokers.server(URL)
    database.gate.fail_next(1, AccessDenied("no entry"), call="backlog")
    broker.gate.latency_s = 0.05
    values = {"RELAY__NAME": "status", "DATABASE__URL": URL, "BROKER__URL": URL}
    config = load(None, {f"FENCEPOST_{name}": value for name, value in values.items()})
    before = asyncio.all_tasks()
    with pytest.raises(AccessDenied, match="no entry"):
        await status(config)
    assert asyncio.all_tasks() == before


ROUTED = """
[relay]
name = "status"
[database]
url = "{url}"
[broker]
url = "{url}"
[brokers.dead]
url = "{url}-dead"
[brokers.well]
url = "{url}-well"
[routes.dead]
topics = "dead"
broker = "dead"
[routes.well]
topics = "well"
broker = "well"
"""


async def test_every_broker_is_asked_and_at_once(tmp_path: Path) -> None:
    """A routed broker that is down is a problem of the report, by its section; slow ones do not add up."""
    url = "memory://routed-status"
    (tmp_path / "fencepost.toml").write_text(ROUTED.format(url=url))
    config = load(tmp_path / "fencepost.toml", {})
    main, dead, well = (brokers.server(f"{url}{end}") for end in ("", "-dead", "-well"))
    for each in (main, dead, well):
        each.gate.latency_s = 0.5
    async with Monitor(config) as monitor:
        dead.gate.fail_next(1, Unavailable("nobody there", remedy="start it"), call="open")
        started = SYSTEM_CLOCK.monotonic()
        report = await monitor.look()
        assert SYSTEM_CLOCK.monotonic() - started < 1.2
        assert [(p.part, p.what, p.remedy, p.passes) for p in report.problems] == [
            ("brokers.dead", "nobody there", "start it", True)
        ]
        assert report.delivery == report.brokers["well"].delivery == "exactly-once"
        assert report.brokers["dead"].delivery is None
        again = await monitor.look()
    assert not again.problems
    assert list(again.brokers) == ["dead", "well"]
    assert again.brokers["dead"].delivery == "exactly-once"
