"""`fencepost init` and `fencepost schema`: the first two commands of a new user."""

import contextlib
import io
import json
import re
import sqlite3
import tomllib
from pathlib import Path

import pytest

from fencepost import plugins
from fencepost.cli.init import BROKER, DATABASE, init
from fencepost.config import load
from fencepost.config.records import SECTIONS, rules
from fencepost.config.secrets import withheld
from tests.cli.process import run, run_at_once


def test_init_writes_a_file_that_works(tmp_path: Path) -> None:
    folder = tmp_path / "My Shop 2"
    folder.mkdir()
    assert run("init", cwd=folder).returncode == 0
    config = load(folder / "fencepost.toml", {})
    assert (config.relay.name, config.database.url, config.broker.url) == ("my-shop-2", DATABASE, BROKER)


def test_init_shows_every_key_with_its_default(tmp_path: Path) -> None:
    run("init", "--name", "orders", cwd=tmp_path)
    commented = (tmp_path / "fencepost.toml").read_text()
    shown = tomllib.loads(
        "\n".join(line.removeprefix("# ") if " = " in line else line for line in commented.splitlines())
    )
    for section in set(SECTIONS) - {"existing"}:  # it is there only for whoever has a table already
        assert set(shown[section]) == set(rules(section)), section
        without = {"url", "name", "schema", "source", "retention_s", "route", "format", "header_map"}
        for key in set(shown[section]) - without:
            default = next(f for f in SECTIONS[section].__dataclass_fields__.values() if f.name == key).default  # type: ignore[attr-defined]
            assert shown[section][key] == default, (section, key)


def test_init_does_not_overwrite(tmp_path: Path) -> None:
    (tmp_path / "fencepost.toml").write_text("mine")
    result = run("init", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == "error: fencepost.toml exists already\n  pass --force to replace it\n"
    assert (tmp_path / "fencepost.toml").read_text() == "mine"
    assert run("init", "--force", cwd=tmp_path).returncode == 0
    assert "[relay]" in (tmp_path / "fencepost.toml").read_text()


def test_init_keeps_urls_and_placeholders(tmp_path: Path) -> None:
    url = 'postgresql://app:${DB_PASSWORD}@db/"shop"'
    assert run("init", "--database", url, "--broker", "kafka://k1:9092,k2:9092", cwd=tmp_path).returncode == 0
    config = load(tmp_path / "fencepost.toml", {"DB_PASSWORD": "x"})
    assert config.database.url == 'postgresql://app:x@db/"shop"'
    assert config.broker.url == "kafka://k1:9092,k2:9092"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--database", "db2://x"), "[database] url (--database): no database is called 'db2'"),
        (("--broker", "localhost"), "[broker] url (--broker) is not a URL"),
        (("--name", "My Shop"), "[relay] name (--name) is 'My Shop'"),
        (("--config", "gone/fencepost.toml"), "gone/fencepost.toml cannot be written"),
    ],
)
def test_init_refuses_what_cannot_work(arguments: tuple[str, str], said: str, tmp_path: Path) -> None:
    result = run("init", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert said in result.stderr
    assert not (tmp_path / "fencepost.toml").exists()


def test_schema_of_sqlite(tmp_path: Path) -> None:
    run("init", "--name", "orders", cwd=tmp_path)
    printed = run("schema", "print", cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert not (tmp_path / "orders.db").exists(), "printing connects to nothing"
    assert printed.stdout.startswith("-- The tables of Fencepost, revision 1.\n")
    by_hand = sqlite3.connect(tmp_path / "by-hand.db")
    by_hand.executescript(printed.stdout)
    applied = run("schema", "apply", "--json", cwd=tmp_path)
    assert applied.returncode == 0, applied.stderr
    told = json.loads(applied.stdout.splitlines()[-1])
    assert "fencepost_outbox" in told["created"]
    assert told["revision"] == 1
    again = run("schema", "apply", cwd=tmp_path)
    assert again.stdout == "nothing to do: every table exists\n"
    listing = "SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
    applied_db = sqlite3.connect(tmp_path / "orders.db")
    assert by_hand.execute(listing).fetchall() == applied_db.execute(listing).fetchall()
    by_hand.close()
    applied_db.close()


def test_schema_of_postgresql(fresh_database: str, tmp_path: Path) -> None:
    run("init", "--name", "orders", "--database", fresh_database, cwd=tmp_path)
    printed, applied = run_at_once(("schema", "print", "--json"), ("schema", "apply"), cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert any("fencepost_outbox" in s for s in json.loads(printed.stdout.splitlines()[-1])["statements"])
    assert applied.returncode == 0, applied.stderr
    assert "fencepost_outbox" in applied.stdout
    assert run("schema", "apply", cwd=tmp_path).stdout == "nothing to do: every table exists\n"


def test_redis_needs_no_tables(redis_url: str, fresh_name: str, tmp_path: Path) -> None:
    run("init", "--name", fresh_name, "--database", redis_url, cwd=tmp_path)
    printed, applied = run_at_once(("schema", "print"), ("schema", "apply"), cwd=tmp_path)
    assert printed.stdout == "-- Nothing to do: redis needs no tables.\n", printed.stderr
    assert applied.stdout == "nothing to do: redis needs no tables\n", applied.stderr


SECRET = "S3cr@t/77"
QUOTED = "S3cr%40t%2F77"


@pytest.mark.parametrize(
    ("option", "url", "variable", "needed"),
    [
        ("--broker", f"nats://u:{QUOTED}@h:4222", "BROKER_PASSWORD", SECRET),
        ("--broker", f"nats://{QUOTED}@h:4222", "BROKER_TOKEN", SECRET),
        ("--broker", "https://h/services/S3cr", "BROKER_PATH", "services/S3cr"),
        ("--database", f"postgresql://app:{QUOTED}@db/shop", "DB_PASSWORD", SECRET),
        ("--database", "postgresql://app@db/shop?sslpassword=S3cr", "DB_SSLPASSWORD", "S3cr"),
    ],
)
def test_init_writes_no_secret(option: str, url: str, variable: str, needed: str, tmp_path: Path) -> None:
    """It says what to do instead, and with that the URL is the one that was given."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        given = {"database": DATABASE, "broker": BROKER} | {option.removeprefix("--"): url}
        init(tmp_path / "fencepost.toml", name="shop", force=False, **given)
    assert "S3cr" not in (tmp_path / "fencepost.toml").read_text()
    assert f"set the environment variable {variable} " in said.getvalue()
    assert "S3cr" not in said.getvalue()
    config = load(tmp_path / "fencepost.toml", {variable: needed})
    assert (config.database if option == "--database" else config.broker).url == url


def test_several_servers_may_have_several_passwords() -> None:
    url, variables = withheld("nats://a:one@h1,nats://b:two@h2,nats://c:one@h3", "BROKER", show_user=False)
    assert url == "nats://a:${BROKER_PASSWORD}@h1,nats://b:${BROKER_PASSWORD_2}@h2,nats://c:${BROKER_PASSWORD}@h3"
    assert variables == {"BROKER_PASSWORD": "one", "BROKER_PASSWORD_2": "two"}


@pytest.mark.parametrize("kind", ["database", "broker"])
def test_the_file_lists_every_plug_in(kind: str, tmp_path: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        init(tmp_path / "fencepost.toml", name="shop", database=DATABASE, broker=BROKER, force=False)
    section = (tmp_path / "fencepost.toml").read_text().partition(f"[{kind}]")[2].partition("\n[")[0]
    schemes = [*re.findall(r"([a-z+-]+)://", section), "stdout"]
    listed = {plugins.name_of(kind, f"{scheme.removesuffix('+')}://x") for scheme in schemes}
    assert set(plugins.names(kind)) - {"memory"} <= listed
