"""`fencepost demo`: the first thing a new user runs. It must be true, and it must leave nothing behind."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost.cli.failures import FIX_NEEDED, INTERRUPTED, OK, UNREACHABLE
from fencepost.demo.nats_server import binary
from tests.cli.process import CLOSED, configuration, run, run_at_once, running

KEYS = {"committed", "published", "lost", "repeated", "out_of_order", "failovers", "failover_max_s"}


def result_of(stdout: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stdout.splitlines()[-1])
    assert set(found) >= KEYS
    return found


def processes_of(folder: Path) -> list[str]:
    """The command lines of processes that have something in ``folder`` (relays, servers)."""
    lines = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if entry.name.isdigit() and int(entry.name) != os.getpid() and f"{folder}/" in line:
            lines.append(line)
    return lines


def test_short_run_on_its_own_servers(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    arguments = ("demo", "--seconds", "4", "--kills", "1", "--no-pause", "--json")
    result = run(*arguments, cwd=tmp_path, env={"TMPDIR": str(temporary)}, timeout_s=180)
    assert result.returncode == OK, result.stdout + result.stderr
    found = result_of(result.stdout)
    assert found["published"] == found["committed"] > 20
    assert (found["lost"], found["repeated"], found["out_of_order"], found["unknown"]) == (0, 0, 0, 0)
    assert found["rolled_back"] > 0
    assert found["kills"] == found["failovers"] == 1
    assert found["failover_max_s"] > 0
    assert found["delivery"] == "exactly-once"
    assert "committed orders arrived, each once, in order" in result.stdout
    assert result.stderr == ""
    assert list(temporary.iterdir()) == []
    assert processes_of(temporary) == []


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.torture
def test_postgresql_to_kafka_with_a_pause(fresh_database: str, kafka_url: str, tmp_path: Path) -> None:
    """A10 and A11 as a demonstration: the leader sleeps for three leases and wakes up fenced."""
    servers = ("--database", fresh_database, "--broker", kafka_url)
    result = run("demo", *servers, "--seconds", "6", "--kills", "1", "--json", cwd=tmp_path, timeout_s=240)
    assert result.returncode == OK, result.stdout + result.stderr
    found = result_of(result.stdout)
    assert found["published"] == found["committed"] > 20
    assert (found["kills"], found["pauses"]) == (1, 1)
    assert found["delivery"] == "exactly-once"
    with psycopg.connect(fresh_database) as connection:
        left = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert left == [], "its tables are removed"


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with running("demo", "--seconds", "300", cwd=tmp_path, env={"TMPDIR": str(temporary)}) as demo:
        demo.until("writing ", timeout_s=60)
        assert len(processes_of(temporary)) == 3, "a server and two relays"
        assert demo.ended(signal.SIGINT, timeout_s=60) == INTERRUPTED
        assert "Traceback" not in demo.said()
    assert list(temporary.iterdir()) == []
    give_up = time.monotonic() + 10
    while processes_of(temporary) and time.monotonic() < give_up:
        time.sleep(0.1)
    assert processes_of(temporary) == []


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


@contextmanager
def server_with_a_password(folder: Path) -> Iterator[str]:
    """A NATS server that lets in one user with a password."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    login = ["--user", "relay", "--pass", "hunter22"]
    arguments = ["-js", "-sd", str(folder / "server"), "-a", "127.0.0.1", "-p", str(port), *login]
    server = subprocess.Popen([str(binary()), *arguments], stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 20
        while not listens(port):
            assert time.monotonic() < give_up, "the server does not start"
            time.sleep(0.05)
        yield f"nats://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def test_servers_as_a_configuration_names_them(tmp_path: Path) -> None:
    """With a password that no file of the demonstration shows, and with names of its own."""
    login = 'user = "relay"\npassword = "${NATS_PASSWORD}"\nstream = "SHOP"\nsubjects = ["shop.>"]\n'
    with server_with_a_password(tmp_path) as url:
        configuration(tmp_path, database=f"sqlite:///{tmp_path}/shop.db", broker=url, name="shop", more=login)
        arguments = ("demo", "--config", "fencepost.toml", "--seconds", "2", "--kills", "0", "--no-pause", "--json")
        env = {"NATS_PASSWORD": "hunter22", "TMPDIR": str(tmp_path)}
        with running(*arguments, cwd=tmp_path, env=env | {"NATS_PASSWORD": "wrong-one"}) as refused:
            result = run(*arguments, "--keep", cwd=tmp_path, env=env, timeout_s=120)
            assert refused.ended() == FIX_NEEDED, refused.said()
            said = refused.said()
        assert result.returncode == OK, result.stdout + result.stderr
    found = result_of(result.stdout)
    assert found["published"] == found["committed"] > 0
    folder = Path(found["folder"])
    texts = {file.name: file.read_text() for file in folder.glob("*") if file.suffix in {".toml", ".log"}}
    assert "fencepost.toml" in texts
    assert not any("hunter22" in text for text in [*texts.values(), result.stdout])
    assert "SHOP" not in texts["fencepost.toml"]
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        tables = shop.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    names = {name for (name,) in tables if not name.startswith("sqlite_")}
    assert len(names) == 6
    assert all(name.startswith("fencepost_demo_") for name in names)
    assert "check user, password, token or credentials" in said
    assert "wrong-one" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--broker", f"nats://{CLOSED}"), f"connecting to NATS at {CLOSED}"),
        (("--broker", f"kafka://{CLOSED}"), "Kafka, while connecting"),
        (("--database", f"postgresql://u:hunter22@{CLOSED}/x", "--broker", f"nats://{CLOSED}"), CLOSED),
    ],
)
def test_servers_that_cannot_be_reached(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    result = run("demo", *arguments, cwd=tmp_path)
    assert result.returncode == UNREACHABLE, result.stderr
    assert said in result.stderr
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert "hunter22" not in result.stderr


def test_servers_that_the_demonstration_does_not_know(tmp_path: Path) -> None:
    unknown = (("--database", "memory://x"), ("--broker", "memory://x"), ("--broker", "nonsense"))
    for result in run_at_once(*(("demo", *arguments) for arguments in unknown), cwd=tmp_path):
        assert result.returncode == 2, result.stderr
        assert result.stderr.startswith("error: ")
