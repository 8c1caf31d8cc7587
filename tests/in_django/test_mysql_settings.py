"""settings.DATABASES of a MariaDB or MySQL as the URL of its relay, and what a URL cannot say."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncmy
import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connections
from django.test import override_settings

from fencepost.django import settings
from fencepost.errors import ConfigurationError
from fencepost.sql.mariadb_address import connect_arguments
from tests.databases.mariadb_kit import ask
from tests.in_django import project
from tests.in_django.on_pymysql import BACKEND

OWN_SESSION = {"charset": "utf8mb4", "init_command": "SET sql_mode='STRICT_TRANS_TABLES'", "isolation_level": None}
CA = {"ssl_ca": "/ca.pem"}


def url(**entry: Any) -> str:
    project.place("default", {"ENGINE": BACKEND, "NAME": "shop", **entry})
    return settings.config("default").database.url


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, "mysql://127.0.0.1/shop"),
        ({"USER": "app", "PASSWORD": "a:b/c@d%e", "HOST": "db", "PORT": "3307"},
         "mysql://app:a%3Ab%2Fc%40d%25e@db:3307/shop"),
        ({"HOST": "::1", "PORT": 3306}, "mysql://[::1]:3306/shop"),
        ({"PORT": 3307}, "mysql://127.0.0.1:3307/shop"),
        ({"HOST": "/run/mysqld/mysqld.sock", "PORT": 3307}, "mysql:///shop?unix_socket=%2Frun%2Fmysqld%2Fmysqld.sock"),
        ({"HOST": "localhost", "OPTIONS": {"unix_socket": "/a b"}}, "mysql:///shop?unix_socket=%2Fa+b"),
        ({"HOST": "db", "OPTIONS": OWN_SESSION}, "mysql://db/shop"),
        ({"USER": "x", "OPTIONS": {"user": "u", "passwd": "p", "db": "d", "host": "h", "port": 1}}, "mysql://u:p@h:1/d"),
    ],
)  # fmt: skip
def test_the_server(entry: dict[str, Any], expected: str) -> None:
    assert url(**entry) == expected
    assert connect_arguments(expected)["database"] in {"shop", "d"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ssl": {"ca": "/ca.pem"}}, CA),
        ({"ssl": {"ca": "/ca.pem", "cert": "/c", "key": "/k"}}, {**CA, "ssl_cert": "/c", "ssl_key": "/k"}),
        ({"ssl": {"capath": "/certs", "check_hostname": False}},
         {"ssl_capath": "/certs", "ssl_check_hostname": "false"}),
        ({"ssl": {"ca": "/ca.pem", "verify_mode": "none"}}, {"ssl": "true"}),
        ({"ssl": True}, {"ssl": "true"}),
        ({"ssl": {"cert": "/c", "key": "/k"}}, {"ssl": "true", "ssl_cert": "/c", "ssl_key": "/k"}),
        ({"ssl": {}}, {}),
        ({"ssl": False}, {}),
        ({"ssl_disabled": True, "ssl_ca": "/ca.pem"}, {}),
        ({"ssl_ca": "/ca.pem"}, {**CA, "ssl_check_hostname": "false"}),
        ({"ssl_ca": "/ca.pem", "ssl_verify_identity": True}, CA),
        ({"ssl_ca": "/ca.pem", "ssl_verify_cert": False}, {"ssl": "true"}),
        ({"ssl_mode": "DISABLED", "ssl": {"ca": "/ca.pem"}}, {}),
        ({"ssl_mode": "PREFERRED"}, {}),
        ({"ssl_mode": "REQUIRED"}, {"ssl": "true"}),
        ({"ssl_mode": "VERIFY_CA", "ssl": {"ca": "/ca.pem"}}, {**CA, "ssl_check_hostname": "false"}),
        ({"ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": "/ca.pem"}}, CA),
    ],
)  # fmt: skip
def test_tls(options: dict[str, Any], expected: dict[str, str]) -> None:
    """A relay never checks less of the server's certificate than Django does."""
    made = url(HOST="db", OPTIONS=options)
    terms = [pair.split("=") for pair in urlsplit(made).query.split("&") if pair]
    assert {name: unquote(value) for name, value in terms} == expected
    assert ("ssl" in connect_arguments(made)) is bool(expected)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"OPTIONS": {"read_default_file": "/etc/my.cnf", "read_default_group": "x"}},
         r"\['OPTIONS'\] has read_default_file, read_default_group, which .* not be told: say it as HOST, PORT"),
        ({"OPTIONS": {"server_public_key": "x"}}, "has server_public_key, which"),
        ({"OPTIONS": {"bind_address": "10.0.0.1"}}, "has bind_address, which"),
        ({"OPTIONS": {"init_command": "SET ROLE writer"}}, "an init_command with SET ROLE, .*: let the user have it"),
        ({"OPTIONS": {"init_command": "use other"}}, "an init_command with USE, "),
        ({"HOST": "db", "OPTIONS": {"unix_socket": "/s"}}, "both a host and a unix_socket: leave one of them out"),
        ({"NAME": ""}, r"settings.DATABASES\['default'\] names no database: say it as NAME"),
        ({"OPTIONS": {"ssl": {"ca": "/ca.pem", "cipher": "AES"}}}, r"\['ssl'\] has cipher, which"),
        ({"OPTIONS": {"ssl": ssl.create_default_context()}}, r"\['ssl'\] is a SSLContext: write a dict"),
        ({"OPTIONS": {"ssl_mode": "VERIFY_CA"}}, "wants the server's certificate checked, and names no authority"),
        ({"OPTIONS": {"ssl": {"verify_mode": True}}}, "wants the server's certificate checked, and names no authority"),
    ],
)  # fmt: skip
def test_what_a_url_cannot_say(entry: dict[str, Any], said: str) -> None:
    """H4. Who only adds messages is not concerned, and a relay may have an address of its own."""
    with pytest.raises(ConfigurationError, match=said):
        url(**entry)
    with override_settings(FENCEPOST=project.FENCEPOST):
        (error,) = [each for each in run_checks() if each.id == "fencepost.E001"]
        assert error.hint
    with override_settings(FENCEPOST={"outbox": {"max_bytes": None}}):
        assert [each for each in run_checks() if (each.id or "").startswith("fencepost")] == []
    with override_settings(FENCEPOST=project.FENCEPOST | {"database": {"url": "mysql://u@h/d"}}):
        assert settings.config("default").database.url == "mysql://u@h/d"


@pytest.fixture
def socket(fresh_mariadb: str) -> Iterator[str]:
    """The server's socket, by a short name, as sockets need."""
    ((folder, name),) = ask(fresh_mariadb, "SELECT @@datadir, @@socket")
    if not os.access(Path(folder, name), os.W_OK):
        pytest.skip("the server's socket is not in reach: only URLs are looked at (test_the_server)")
    with tempfile.TemporaryDirectory() as short:
        link = Path(short, "socket")
        link.symlink_to(Path(folder, name))
        yield str(link)


@pytest.mark.parametrize("by", ["port", "socket"])
def test_the_relay_finds_the_same_database(fresh_mariadb: str, by: str, request: pytest.FixtureRequest) -> None:
    entry = project.entry(fresh_mariadb)
    if by == "socket":
        entry |= {"HOST": request.getfixturevalue("socket")}
    project.place("default", entry)
    arguments = connect_arguments(settings.config("default").database.url)
    assert ("unix_socket" in arguments) is (by == "socket")
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT DATABASE(), @@port")
        theirs = cursor.fetchone()

    async def look() -> Any:
        connection = await asyncmy.connect(**arguments)
        async with connection.cursor() as cursor:
            await cursor.execute("SELECT DATABASE(), @@port")
            found = await cursor.fetchone()
        await connection.ensure_closed()
        return found

    parts = urlsplit(fresh_mariadb)
    assert asyncio.run(look()) == theirs == (parts.path[1:], parts.port)


def test_no_password_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    closed = "127.0.0.1:9"  # where nobody listens
    host, _, port = closed.partition(":")
    project.place("default", {"ENGINE": BACKEND, "NAME": "x", "USER": "u", "PASSWORD": "hunter2/2", "HOST": host,
                              "PORT": port})  # fmt: skip
    with override_settings(FENCEPOST=project.FENCEPOST | {"broker": {"url": f"nats://{closed}", "timeout_s": 0.5}}):
        with pytest.raises(SystemExit) as ended:
            call_command("fencepost_check", "--json")
        assert ended.value.code == 3
    assert "hunter2" not in "".join(capsys.readouterr())
