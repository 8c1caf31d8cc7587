"""`fencepost status`: who leads and since when, or that nobody does."""

import json
from pathlib import Path

from fencepost import app
from fencepost.clock import SYSTEM_CLOCK
from fencepost.config import load
from tests.cli.process import configuration, make_tables, run_at_once


async def test_a_lease_that_has_ended_by_itself_is_nobodys(tmp_path: Path) -> None:
    """As one that was released: the leader was killed, and there is no other relay."""
    configuration(tmp_path, database=f"sqlite:///{tmp_path}/orders.db", broker="memory://status")
    settings = load(tmp_path / "fencepost.toml", {})
    await app.schema(settings).apply()
    before = await app.status(settings)
    leases, lane = app.lease_store(settings), app.lane(settings).name
    await leases.open()
    try:
        term = await leases.acquire(lane, "host:1:abcd", 5.0)
        assert term is not None
        leading = await app.status(settings)
        assert (leading.leader, leading.term) == ("host:1:abcd", term.token)
        assert await leases.renew(term, 0.05)
        await SYSTEM_CLOCK.sleep(0.1)
        assert await leases.holder(lane) is not None, "the row still names the last owner"
        ended = await app.status(settings)
        await leases.release(term)
        released = await app.status(settings)
    finally:
        await leases.close()
    for report in (before, ended, released):
        assert (report.leader, report.term, report.lease_remaining_s, report.led_for_s) == (None, None, None, None)
    words, as_json = run_at_once(("status",), ("status", "--json"), cwd=tmp_path)
    assert {"leader: nobody", "term: -", "lease: -"} <= set(words.stdout.splitlines())
    assert json.loads(as_json.stdout)["term"] is None


ARCHIVE = """
[brokers.archive]
url = "redis://127.0.0.1:9/0"
timeout_s = 1.0

[routes.archive]
topics = "archive.*"
broker = "archive"
"""


def test_a_further_broker_that_is_down_is_told(tmp_path: Path) -> None:
    configuration(tmp_path, database="sqlite:///orders.db", broker="memory://status", more=ARCHIVE)
    make_tables(tmp_path)
    words, as_json = run_at_once(("status",), ("status", "--json"), cwd=tmp_path)
    rows = dict(line.split(": ", 1) for line in words.stdout.splitlines())
    assert (rows["delivery"], rows["delivery archive"]) == ("exactly-once", "unknown")
    assert "127.0.0.1:9" in rows["brokers.archive problem"]
    report = json.loads(as_json.stdout)
    assert report["brokers"] == {"archive": {"delivery": None, "delivery_reason": ""}}
    assert [problem["part"] for problem in report["problems"]] == ["brokers.archive"]


def test_one_broker_has_the_keys_that_it_always_had(tmp_path: Path) -> None:
    configuration(tmp_path, database="sqlite:///orders.db", broker="memory://status")
    make_tables(tmp_path)
    (as_json,) = run_at_once(("status", "--json"), cwd=tmp_path)
    assert "brokers" not in json.loads(as_json.stdout)
