"""settings.DATABASES and settings.FENCEPOST as a relay's configuration, and what is refused of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from django.core.checks import run_checks
from django.test import override_settings

from fencepost import app, plugins
from fencepost.databases.sqlite.connection import path_of
from fencepost.django import settings
from fencepost.errors import ConfigurationError, FixError
from fencepost.ports import DatabaseOptions
from fencepost.sql.postgresql_address import dsn_of
from tests.in_django import project

POSTGRESQL = "django.db.backends.postgresql"


def url(**entry: Any) -> str:
    project.place("default", {"ENGINE": POSTGRESQL, "NAME": "shop", **entry})
    return settings.config("default").database.url


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, "postgresql:///shop"),
        ({"USER": "app", "PASSWORD": "a:b/c@d%e", "HOST": "db", "PORT": 5433},
         "postgresql://app:a%3Ab%2Fc%40d%25e@db:5433/shop"),
        ({"HOST": "::1", "PORT": "5432"}, "postgresql://[::1]:5432/shop"),
        ({"HOST": "db1,db2", "PORT": "5432"}, "postgresql://db1:5432,db2:5432/shop"),
        ({"HOST": "db1,db2", "PORT": "1,2"}, "postgresql://db1:1,db2:2/shop"),
        ({"HOST": "/var/run/postgresql", "USER": "app"}, "postgresql://app@/shop?host=%2Fvar%2Frun%2Fpostgresql"),
        ({"HOST": "/run", "PORT": 5433}, "postgresql:///shop?host=%2Frun&port=5433"),
        ({"NAME": "a b?c"}, "postgresql:///a%20b%3Fc"),
        ({"OPTIONS": {"sslmode": "verify-full", "sslrootcert": "/ca.pem", "pool": True, "client_encoding": "UTF8"}},
         "postgresql:///shop?sslmode=verify-full&sslrootcert=%2Fca.pem"),
        ({"OPTIONS": {"options": "-c search_path=shop,public", "assume_role": "owner"}},
         "postgresql:///shop?options=-c%20search_path%3Dshop%2Cpublic&role=owner"),
    ],
)  # fmt: skip
def test_postgresql(entry: dict[str, Any], expected: str) -> None:
    assert url(**entry) == expected
    assert dsn_of(expected).startswith("postgresql://")


def test_the_relay_finds_the_same_postgresql(fresh_database: str) -> None:
    """Also what Django says in OPTIONS: the search path, the role."""
    options = {"options": "-c search_path=elsewhere", "assume_role": "pg_monitor"}
    project.place("default", project.entry(fresh_database, **options))
    dsn = dsn_of(settings.config("default").database.url)

    async def ask() -> Any:
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetchrow("SELECT current_database(), current_setting('search_path'), current_role")
        finally:
            await connection.close()

    assert tuple(asyncio.run(ask())) == (urlsplit(fresh_database).path[1:], "elsewhere", "pg_monitor")


@pytest.mark.parametrize("name", ["plain.db", "with blank.db", "50%25.db", "odd?name#1.db"])
def test_sqlite(tmp_path: Path, name: str) -> None:
    project.place("default", {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / name})
    address = settings.config("default").database.url
    assert path_of(address) == tmp_path / name
    asyncio.run(plugins.load("database", "sqlite").schema(DatabaseOptions(url=address)).apply())
    assert (tmp_path / name).exists()


def test_a_database_in_memory_is_refused() -> None:
    project.place("default", {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"})
    with pytest.raises(FixError, match=r"settings.DATABASES\['default'\].*in memory is seen by one connection only"):
        app.source(settings.config("default"))


def test_a_password_is_taken_as_it_is() -> None:
    """Also where it looks like a variable: settings are a program already."""
    config = settings.config("default") if url(USER="app", PASSWORD="${HOME}", HOST="db") else None
    assert config is not None
    assert config.database.url == "postgresql://app:%24%7BHOME%7D@db/shop"


# -- settings.FENCEPOST ------------------------------------------------------------------------------------------------


def test_every_section() -> None:
    given = {
        "relay": {"name": "shop", "batch": 100, "delivery": "exactly-once"},
        "broker": {"url": "nats://127.0.0.1:4222", "stream": "SHOP", "create": False},
        "database": {"using": "other", "prefix": "x_", "schema": None, "timeout_s": 7},
        "lease": {"ttl_s": 3},
        "log": {"format": "json"},
        "outbox": {"versions": "position"},
    }
    with override_settings(FENCEPOST=given):
        config = settings.config(settings.default_alias())
    assert config.relay.name == "shop-other"
    assert (config.relay.batch, config.broker.create, config.lease.ttl_s) == (100, False, 3.0)
    assert config.broker.settings == {"stream": "SHOP"}
    assert (config.database.prefix, config.database.schema, config.database.timeout_s) == ("x_", None, 7.0)
    assert config.database.url.endswith("nowhere.db")


def test_a_relay_may_have_an_address_of_its_own() -> None:
    """Where the application goes through a pooler in transaction mode."""
    given = project.FENCEPOST | {"database": {"url": "postgresql://direct/shop"}}
    with override_settings(FENCEPOST=given):
        assert settings.config("default").database.url == "postgresql://direct/shop"


def test_the_environment_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_RELAY__NAME", "somebody-else")
    assert settings.config("default").relay.name == "shop"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"realy": {"name": "x"}}, r"unknown section \[realy\] \(settings.FENCEPOST\).*did you mean 'relay'"),
        ({"relay": {"name": "A b"}}, r"\[relay\] name \(settings.FENCEPOST\) is 'A b'"),
        ({"relay": {"name": "x", "nam": "x"}}, r"\[relay\] nam .*did you mean 'name'"),
        ({"broker": "nats://x"}, r"\[broker\] \(settings.FENCEPOST\) is str: write a dict"),
        ({"broker": {"url": "nts://x"}}, r"no broker is called 'nts'.*did you mean 'nats'"),
        ({"broker": {}}, r"\[broker\] url is missing \(settings.FENCEPOST\): add it to settings.FENCEPOST: "
         r"\{\"broker\": \{\"url\": \"...\"\}\}"),
        ({"database": {"using": "othr"}}, "settings.DATABASES has no 'othr'.*did you mean 'other'"),
        ({"database": {"schema": '"x"'}}, "without \", ` and % in Django"),
        ({"database": {"prefix": "1 x"}}, r"\[database\] prefix"),
        ({"outbox": {"version": "position"}}, r"unknown key \[outbox\] version .*did you mean 'versions'"),
        ({"outbox": {"versions": "none"}}, r"\[outbox\] versions .* is 'none': use one of counter, position"),
        ({"outbox": {"encoder": 3}}, r"\[outbox\] encoder .* is 3: write a fencepost.outbox.Encoder"),
        (["relay"], "settings.FENCEPOST is list: write a dict"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_said_by_check(given: Any, said: str) -> None:
    """H4: `manage.py check` names the key, the place and the remedy."""
    whole = {**project.FENCEPOST, **given} if isinstance(given, dict) else given
    with override_settings(FENCEPOST=whole):
        errors = [error for error in run_checks() if error.id == "fencepost.E001"]
        with pytest.raises(ConfigurationError, match=said):
            settings.check()
    assert len(errors) == 1
    assert errors[0].hint


def test_several_problems_are_several_errors() -> None:
    with override_settings(FENCEPOST={"relay": {"name": "A b", "batch": 0}, "broker": {}}):
        assert len([error for error in run_checks() if error.id == "fencepost.E001"]) == 3


@pytest.mark.parametrize("given", [{}, project.FENCEPOST, {"outbox": {"max_bytes": None}}])
def test_who_only_adds_messages_need_not_name_a_broker(given: dict[str, Any]) -> None:
    with override_settings(FENCEPOST=given):
        assert [error for error in run_checks() if (error.id or "").startswith("fencepost")] == []


@pytest.mark.parametrize(
    "given", [{"realy": {"name": "x"}}, {"database": {"prefx": "x_"}}, {"database": {"prefix": "%"}}]
)
def test_what_they_do_name_must_be_right(given: dict[str, Any]) -> None:
    with override_settings(FENCEPOST=given):
        assert [error.id for error in run_checks() if (error.id or "").startswith("fencepost")] == ["fencepost.E001"]


def test_a_kind_of_database_that_cannot_hold_an_outbox() -> None:
    project.place("default", {"ENGINE": "django.db.backends.dummy"})
    with pytest.raises(ConfigurationError, match=r"settings.DATABASES\['default'\] is a 'unknown', which cannot hold"):
        settings.config("default")
