"""`manage.py fencepost_check` and `fencepost_relay`: remedies as they are in Django, exit codes, no secrets."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from fencepost.cli.early import SIGNALS
from fencepost.cli.failures import MANNER
from tests.in_django import manage, project
from tests.in_django.conftest import Database

CLOSED = "127.0.0.1:9"
"""An address where nobody listens (the discard port)."""


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the commands change in their process."""
    monkeypatch.setattr(MANNER, "scrub", MANNER.scrub)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def broker(nats_url: str, fresh_name: str) -> Iterator[None]:
    """A broker that is there, for a relay whose name nobody else has."""
    given = {"relay": {"name": fresh_name}, "broker": {"url": nats_url, "stream": fresh_name}}
    with override_settings(FENCEPOST=given):
        yield


def check(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        call_command("fencepost_check", *arguments)
    return ended.value.code


@pytest.mark.usefixtures("broker")
def test_all_is_well(default: Database, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("fencepost_check", "--json")
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (report["ok"], report["delivery_in_force"]) == (True, "exactly-once")
    assert report["configuration"]["database"]["url"].startswith(default.url.partition(":")[0])


@pytest.mark.usefixtures("broker")
def test_missing_tables_are_migrated(capsys: pytest.CaptureFixture[str]) -> None:
    assert check() == 1
    said = capsys.readouterr().out
    assert "tables are missing" in said
    assert "run `python manage.py migrate`, or hand the output of `python manage.py sqlmigrate fencepost 0001`" in said
    assert "fencepost schema" not in said


def test_a_server_that_is_not_there(sqlite: Database, capsys: pytest.CaptureFixture[str]) -> None:
    broker = {"broker": {"url": f"nats://{CLOSED}", "timeout_s": 0.5}}
    with override_settings(FENCEPOST=project.FENCEPOST | broker):
        assert check() == 3
    assert "a relay would wait" in capsys.readouterr().out


def test_the_database_is_named(sqlite: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    project.place("other", project.entry(f"sqlite:///{tmp_path}/of another.db"))
    broker = {"broker": {"url": f"nats://{CLOSED}", "timeout_s": 0.5}}
    with override_settings(FENCEPOST=project.FENCEPOST | broker):
        assert check("--database", "other") == 1
    assert "of another.db" in capsys.readouterr().out.replace("%20", " ")


def test_no_password_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    host, _, port = CLOSED.partition(":")
    secret = {"ENGINE": "django.db.backends.postgresql", "NAME": "x", "USER": "u", "PASSWORD": "hunter2/2"}
    project.place("default", secret | {"HOST": host, "PORT": port})
    with override_settings(FENCEPOST=project.FENCEPOST | {"broker": {"url": f"nats://{CLOSED}", "timeout_s": 0.5}}):
        assert check("--json") == 3
    assert "hunter2" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("command", ["fencepost_check", "fencepost_relay"])
@pytest.mark.parametrize(
    ("given", "arguments", "said"),
    [
        ({}, (), r"\[relay\] name is missing \(settings.FENCEPOST\)\n  add it to settings.FENCEPOST"),
        (project.FENCEPOST, ("--database=nobody",), "settings.DATABASES has no 'nobody'"),
        (project.FENCEPOST | {"log": {"level": "loud"}}, (), r"\[log\] level"),
    ],
)
def test_what_a_person_must_change(command: str, given: Any, arguments: tuple[str, ...], said: str) -> None:
    with override_settings(FENCEPOST=given), pytest.raises(CommandError, match=said) as refused:
        call_command(command, *arguments, skip_checks=True)
    assert refused.value.returncode == 2


@pytest.mark.slow
def test_a_relay_without_tables(nats_url: str, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    fencepost = {"relay": {"name": "shop"}, "broker": {"url": nats_url}}
    done = manage.run(tmp_path, f"sqlite:///{tmp_path}/empty.db", fencepost, "fencepost_relay")
    assert done.returncode == 2
    assert "CommandError: " in done.stderr
    assert done.stderr.endswith("\n  run `python manage.py migrate`\n")


@pytest.mark.slow
def test_a_relay_waits_for_its_servers_and_is_stopped(tmp_path: Path, filled_file: Path) -> None:
    """SIGTERM while it waits: its usual last words, and 0."""
    fencepost = {"relay": {"name": "shop"}, "broker": {"url": f"nats://{CLOSED}"}, "log": {"format": "json"}}
    env = manage.settings_module(tmp_path, f"sqlite:///{filled_file}", fencepost)
    output = tmp_path / "output"
    with output.open("wb") as opened:
        process = subprocess.Popen(
            manage.command("fencepost_relay"), cwd=tmp_path, env=env, stdout=opened, stderr=subprocess.STDOUT
        )
    try:
        give_up = time.monotonic() + 60
        while "circuit_opened" not in output.read_text():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < give_up, output.read_text()
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    events = [json.loads(line)["event"] for line in output.read_text().splitlines()]
    assert (events[0], events[-1]) == ("starting", "stopped")
