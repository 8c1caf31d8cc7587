"""`fencepost status`: who leads and since when, or that nobody does."""

import json
from pathlib import Path

from fencepost import app
from fencepost.clock import SYSTEM_CLOCK
from fencepost.config import load
from tests.cli.process import configuration, run_at_once


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
