"""Case H4 and its relatives, as a user meets them: one clear line for each, and the exit code of its family."""

import json
import sqlite3
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from fencepost.cli.failures import FIX_NEEDED, OK, PROBLEM_FOUND, UNREACHABLE
from fencepost.plugins import as_installed
from tests.cli.process import CLOSED, configuration, make_tables, run, run_at_once

SQLITE = "sqlite:///orders.db"
NATS = f"nats://{CLOSED}"


def with_schema(folder: Path, *, database: str = SQLITE, broker: str = NATS) -> None:
    configuration(folder, database=database, broker=broker)
    make_tables(folder)


def clear(stderr: str, errors: int = 1) -> None:
    """Every error is a line and a remedy, and nothing else is there."""
    lines = stderr.splitlines()
    assert "Traceback" not in stderr
    assert sum(line.startswith("error: ") for line in lines) == errors, stderr
    assert all(line.startswith(("error: ", "  ")) for line in lines), stderr


@pytest.mark.parametrize("command", [("relay",), ("schema", "print")])
def test_unknown_key(command: tuple[str, ...], tmp_path: Path) -> None:
    configuration(tmp_path, database=SQLITE, broker=NATS, more="\n[relay2]\nbatchsize = 1\n")
    result = run(*command, cwd=tmp_path)
    assert result.returncode == FIX_NEEDED
    assert "error: unknown section [relay2] (fencepost.toml line 11)\n  did you mean 'relay'?" in result.stderr
    clear(result.stderr)


def test_several_problems_at_once(tmp_path: Path) -> None:
    configuration(tmp_path, database="db2://x", broker="localhost", more="[log]\nlevl = 1\n")
    result = run("check", cwd=tmp_path)
    assert result.returncode == FIX_NEEDED
    clear(result.stderr, errors=3)


def test_no_configuration(tmp_path: Path) -> None:
    result = run("relay", cwd=tmp_path)
    assert result.returncode == FIX_NEEDED
    assert "fencepost init" in result.stderr
    clear(result.stderr, errors=3)


def test_debug_shows_where_it_comes_from(tmp_path: Path) -> None:
    for result in run_at_once(("--debug", "status"), ("status", "--debug"), cwd=tmp_path):
        assert result.returncode == FIX_NEEDED
        assert "Traceback" in result.stderr
        assert "error: " in result.stderr


BLOCKED = """\
import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.parametrize("command", ["relay", "status"])
def test_missing_extras_are_named_together(command: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKED.format(names=("asyncpg", "nats")))
    configuration(tmp_path, database="postgresql://u@h/x", broker=NATS)
    result = run(command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert result.returncode == FIX_NEEDED
    assert "the database 'postgresql' needs the library 'asyncpg', which is not installed" in result.stderr
    for extra in ("postgresql", "nats"):
        remedy = as_installed(f'pip install "fencepost[{extra}]"')
        assert f"  {remedy}\n" in result.stderr
    clear(result.stderr, errors=2)


def test_missing_extra_in_check(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCKED.format(names=("confluent_kafka",)))
    with_schema(tmp_path, broker="kafka://127.0.0.1:9")
    result = run("check", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert result.returncode == PROBLEM_FOUND
    assert as_installed('pip install "fencepost[kafka]"') in result.stdout


def test_database_that_cannot_be_reached(tmp_path: Path) -> None:
    leases = f'[lease]\nurl = "postgresql://app:hunter22@{CLOSED}/leases"\n'
    configuration(tmp_path, database=f"postgresql://app:hunter22@{CLOSED}/shop", broker=NATS, more=leases)
    checked, *others = run_at_once(("check",), ("status",), ("schema", "apply"), cwd=tmp_path)
    for result in others:
        assert result.returncode == UNREACHABLE, result.stderr
        assert CLOSED in result.stderr
        assert "hunter22" not in result.stdout + result.stderr
        clear(result.stderr)
    assert checked.returncode == UNREACHABLE
    assert checked.stdout.count("error ") == 3, checked.stdout  # database, lease, broker
    assert "hunter22" not in checked.stdout + checked.stderr


@pytest.mark.parametrize("broker", [f"nats://app:hunter22@{CLOSED}", f"kafka://{CLOSED}"])
def test_broker_that_cannot_be_reached(broker: str, tmp_path: Path) -> None:
    configuration(tmp_path, database=SQLITE, broker=broker, more="timeout_s = 3\n")
    make_tables(tmp_path)
    status, checked = run_at_once(("status", "--json"), ("check", "--json"), cwd=tmp_path)
    assert status.returncode == OK, "the backlog can be told all the same"
    report = json.loads(status.stdout.splitlines()[-1])
    assert report["pending"] == 0
    assert report["delivery"] is None
    assert [problem["part"] for problem in report["problems"]] == ["broker"]
    assert checked.returncode == UNREACHABLE
    found = json.loads(checked.stdout.splitlines()[-1])
    levels = {f["part"]: f["level"] for f in reversed(found["findings"])}  # the first one of each part
    assert levels == {"database": "ok", "lease": "ok", "broker": "error"}
    assert [f["passes"] for f in found["findings"] if f["level"] == "error"] == [True]
    assert found["delivery_possible"] is None
    assert "hunter22" not in status.stdout + checked.stdout


def test_missing_table(tmp_path: Path) -> None:
    configuration(tmp_path, database=SQLITE, broker=NATS)
    sqlite3.connect(tmp_path / "orders.db").close()
    result, checked = run_at_once(("status",), ("check",), cwd=tmp_path)
    assert result.returncode == FIX_NEEDED, result.stderr
    assert "fencepost schema apply" in result.stderr
    clear(result.stderr)
    assert checked.returncode == PROBLEM_FOUND
    assert "these tables are missing: fencepost_" in checked.stdout
    assert "fencepost schema apply" in checked.stdout


def test_missing_table_of_postgresql(fresh_database: str, nats_url: str, tmp_path: Path) -> None:
    configuration(tmp_path, database=fresh_database, broker=nats_url)
    for result in run_at_once(("status",), ("relay",), cwd=tmp_path):
        assert result.returncode == FIX_NEEDED, result.stderr
        assert "fencepost schema apply" in result.stderr
        clear(result.stderr)


def test_wrong_credentials_of_postgresql(fresh_database: str, fresh_name: str, nats_url: str, tmp_path: Path) -> None:
    """A role that may not log in: the server refuses it whatever the password is, as it refuses a wrong password."""
    role = sql.Identifier(fresh_name)
    parts = urlsplit(fresh_database)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(role))
        try:
            netloc = f"{fresh_name}:hunter22@{parts.hostname}:{parts.port}"
            configuration(tmp_path, database=urlunsplit(parts._replace(netloc=netloc)), broker=nats_url)
            commands = (("check",), ("status",), ("relay",), ("schema", "apply"))
            checked, *others = run_at_once(*commands, cwd=tmp_path)
            for result in others:
                assert result.returncode == FIX_NEEDED, result.stderr
                assert fresh_name in result.stderr
                assert "hunter22" not in result.stderr
                clear(result.stderr)
            assert checked.returncode == PROBLEM_FOUND
            assert "hunter22" not in checked.stdout
        finally:
            connection.execute(sql.SQL("DROP ROLE {}").format(role))


def test_a_stream_that_may_not_be_created(nats_url: str, fresh_name: str, tmp_path: Path) -> None:
    configuration(tmp_path, database=SQLITE, broker=nats_url, more=f'create = false\nstream = "{fresh_name}"\n')
    make_tables(tmp_path)
    result, checked = run_at_once(("relay",), ("check",), cwd=tmp_path)
    assert result.returncode == FIX_NEEDED, result.stderr
    assert f"there is no stream {fresh_name}" in result.stderr
    assert "create = true" in result.stderr
    clear(result.stderr)
    assert checked.returncode == PROBLEM_FOUND
    assert f"there is no stream {fresh_name}" in checked.stdout


def test_a_plugin_refuses_a_key_that_it_does_not_know(tmp_path: Path) -> None:
    configuration(tmp_path, database=SQLITE, broker=NATS, more='strem = "x"\n')
    result = run("relay", cwd=tmp_path)
    assert result.returncode == FIX_NEEDED
    assert "error: [broker] strem (fencepost.toml line 9): the NATS broker has no setting 'strem'" in result.stderr
    assert "  did you mean 'stream'? known are batch_max, " in result.stderr
    clear(result.stderr)


@pytest.mark.parametrize(
    ("database", "broker", "where", "errors"),
    [
        (SQLITE, "kafka://app@host", "[broker] url (fencepost.toml line 8): a Kafka URL with a user in it", 1),
        (SQLITE, "nats://host:port", "[broker] url (fencepost.toml line 8): 'nats://host:***' is not the address", 1),
        ("sqlite:///:memory:", NATS, "[database] url (fencepost.toml line 5): 'sqlite:///:memory:' names no file", 2),
    ],
)
def test_a_url_that_its_plugin_does_not_take(
    database: str, broker: str, where: str, errors: int, tmp_path: Path
) -> None:
    """The lease store, which is in the same place, says of the third one the same as the database."""
    configuration(tmp_path, database=database, broker=broker)
    result = run("relay", cwd=tmp_path)
    assert result.returncode == FIX_NEEDED
    assert result.stderr.count(f"error: {where}") == errors
    clear(result.stderr, errors)


REFUSED: dict[str, tuple[str, str]] = {
    "user": ("nobody-of-that-name", "CREATE ROLE"),
    "database": ("no-database-of-that-name", "createdb"),
    "port": (CLOSED.rpartition(":")[2], "is the server running? check host and port"),
}


@pytest.mark.parametrize("part", REFUSED)
def test_what_is_wrong_in_the_url_of_postgresql(part: str, fresh_database: str, tmp_path: Path) -> None:
    """Every refusal says what to do, in each of the three places that ask the server."""
    value, remedy = REFUSED[part]
    parts = urlsplit(fresh_database)
    user, port = (value if part == "user" else parts.username), (value if part == "port" else parts.port)
    path = f"/{value}" if part == "database" else parts.path
    url = urlunsplit(parts._replace(netloc=f"{user}@{parts.hostname}:{port}", path=path))
    leases = f'[lease]\nurl = "{url}?application_name=leases"\n'  # another URL: else one cause is told once
    configuration(tmp_path, database=url, broker=NATS, more=leases)
    looked, *others = run_at_once(("check",), ("status",), ("schema", "apply"), cwd=tmp_path)
    for result in others:
        assert result.returncode == (UNREACHABLE if part == "port" else FIX_NEEDED), result.stderr
        assert remedy in result.stderr.splitlines()[1]
        clear(result.stderr)
    checked = looked.stdout.splitlines()
    asked = [checked[n : n + 2] for n, line in enumerate(checked) if line.startswith(("error    d", "error    l"))]
    assert len(asked) == 2, checked
    assert all(remedy in said for _, said in asked), checked


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    """`schema apply` cannot help, so nothing sends there."""
    configuration(tmp_path, database=f"sqlite:///{tmp_path}/gone/orders.db", broker=NATS)
    for result in run_at_once(("check",), ("schema", "apply"), ("status",), cwd=tmp_path):
        assert f"there is no folder {tmp_path}/gone" in result.stdout + result.stderr
        assert f"mkdir -p {tmp_path}/gone" in result.stdout + result.stderr
        assert "tables are missing" not in result.stdout
    (tmp_path / "gone").mkdir()
    assert run("schema", "apply", cwd=tmp_path).returncode == OK
