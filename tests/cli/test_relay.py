"""`fencepost relay` as a process: it waits for servers, publishes, drains on a signal, and says what happens once."""

import json
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.cli.failures import FIX_NEEDED, INTERRUPTED, OK, PROBLEM_FOUND
from fencepost.outbox import Outbox
from tests.cli.process import CLOSED, configuration, make_tables, run, run_at_once, running


@pytest.fixture
def shop(nats_url: str, fresh_name: str, tmp_path: Path) -> Path:
    """A folder with a configuration and a SQLite outbox."""
    stream = f'stream = "{fresh_name}"\nsubject_prefix = "{fresh_name}."\n'
    configuration(tmp_path, database="sqlite:///orders.db", broker=nats_url, name=fresh_name, more=stream)
    make_tables(tmp_path)
    return tmp_path


def add(folder: Path, count: int) -> None:
    """Commit messages as an application does."""
    connection = sqlite3.connect(folder / "orders.db")
    outbox = Outbox()
    for number in range(count):
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            outbox.add(connection, "orders", {"number": number}, key=f"k{number % 3}", type="placed")
    connection.close()


def status(folder: Path) -> dict[str, object]:
    result = run("status", "--json", cwd=folder)
    assert result.returncode == OK, result.stderr
    report: dict[str, object] = json.loads(result.stdout.splitlines()[-1])
    return report


def settled(folder: Path) -> bool:
    connection = sqlite3.connect(folder / "orders.db")
    try:
        return bool(connection.execute("SELECT count(*) = 0 FROM fencepost_outbox").fetchone()[0])
    finally:
        connection.close()


def test_publishes_drains_and_releases(shop: Path) -> None:
    add(shop, 20)
    assert status(shop)["pending"] == 20
    with running("relay", cwd=shop) as relay:
        relay.until('"event": "published_total"')
        give_up = time.monotonic() + 20
        while not settled(shop):
            assert time.monotonic() < give_up, relay.said()
            time.sleep(0.05)
        seen = status(shop)
        assert seen["pending"] == 0
        assert str(seen["leader"]).split(":")[1] == str(relay.process.pid)
        assert seen["delivery"] == "exactly-once"
        assert isinstance(seen["lease_remaining_s"], float)
        assert relay.ended(signal.SIGTERM) == OK
        lines = [json.loads(line) for line in relay.said().splitlines()]
    events = [line["event"] for line in lines]
    assert events[0] == "starting"
    assert events[-1] == "stopped"
    assert "lease_ended" in events
    assert all({"ts", "level", "event", "text"} <= set(line) for line in lines)
    assert sum(line.get("messages", 0) for line in lines if line["event"] == "published_total") == 20
    assert status(shop)["leader"] is None, "the lease was released"


def test_ctrl_c_drains_too(shop: Path) -> None:
    with running("relay", cwd=shop) as relay:
        relay.until('"event": "lease_acquired"')
        assert relay.ended(signal.SIGINT) == OK
        assert '"event": "stopped"' in relay.said()
        assert "Traceback" not in relay.said()


def test_waits_for_a_server_and_says_so_once(tmp_path: Path) -> None:
    configuration(tmp_path, database=f"postgresql://app:hunter22@{CLOSED}/shop", broker=f"nats://{CLOSED}")
    with running("relay", cwd=tmp_path) as relay:
        relay.until('"event": "circuit_opened"')
        time.sleep(2.0)
        lines = [json.loads(line) for line in relay.said().splitlines()]
        assert [line["event"] for line in lines].count("circuit_opened") == 1, lines
        assert CLOSED in next(line["cause"] for line in lines if line["event"] == "circuit_opened")
        assert "hunter22" not in relay.said()
        assert relay.ended(signal.SIGTERM) == OK


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_second_signal_ends_it_at_once(silent_server: str, tmp_path: Path) -> None:
    configuration(tmp_path, database="sqlite:///orders.db", broker=f"nats://{silent_server}", more="timeout_s = 300\n")
    with running("relay", cwd=tmp_path) as relay:
        relay.until('"event": "starting"')
        time.sleep(0.5)  # it waits for an answer now
        relay.process.send_signal(signal.SIGTERM)
        try:
            relay.until('"event": "stopping"')
            started = time.monotonic()
            ended = relay.ended(signal.SIGTERM)
        except AssertionError:  # the first one was enough
            ended, started = relay.ended(), time.monotonic()
        assert ended in (OK, -signal.SIGTERM)
        assert time.monotonic() - started < 5


def test_delivery_that_the_broker_cannot_give_is_refused(tmp_path: Path) -> None:
    plain = 'delivery = "at-least-once"\n'
    configuration(tmp_path, database="sqlite:///orders.db", broker="memory://x", more=plain)
    make_tables(tmp_path)
    file = tmp_path / "fencepost.toml"
    accepted = run("check", "--json", cwd=tmp_path)
    report = json.loads(accepted.stdout.splitlines()[-1])
    assert accepted.returncode == OK
    assert report["delivery_possible"] == report["delivery_in_force"] == "at-least-once"
    file.write_text(file.read_text().replace("[relay]\n", '[relay]\ndelivery = "exactly-once"\n'))
    relay, checked = run_at_once(("relay",), ("check", "--json"), cwd=tmp_path)
    assert relay.returncode == FIX_NEEDED
    assert "delivery = 'exactly-once' is asked for, but this broker gives 'at-least-once'" in relay.stderr
    report = json.loads(checked.stdout.splitlines()[-1])
    assert checked.returncode == PROBLEM_FOUND
    assert report["delivery_possible"] == "at-least-once"
    assert report["delivery_in_force"] is None


def test_status_watch_is_one_object_a_line_until_interrupted(shop: Path) -> None:
    with running("status", "--watch", "--every", "0.2", "--json", cwd=shop) as watching:
        give_up = time.monotonic() + 20
        while watching.said().count("\n") < 3:
            assert time.monotonic() < give_up
            time.sleep(0.05)
        assert watching.ended(signal.SIGINT) == INTERRUPTED
        assert [json.loads(line)["pending"] for line in watching.said().splitlines()][:3] == [0, 0, 0]
