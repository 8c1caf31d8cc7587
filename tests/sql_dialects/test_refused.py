"""What cannot be had of the other SQL databases is refused before anything is sent, with what to do instead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fencepost import plugins
from fencepost.databases.other_sql.checks import check_server
from fencepost.databases.other_sql.connection import Outbox
from fencepost.errors import ConfigurationError, FencepostError, MissingExtra, Unavailable
from fencepost.ports import DatabaseOptions, LeaseOptions, Limited
from fencepost.sql.adding import OutboxWriter
from fencepost.sql.other import KINDS, dialect_of
from tests.cli.process import run
from tests.databases.proxy import proxy
from tests.sql_dialects.texts import NAMES

URLS = {
    "cockroachdb": "cockroachdb://app:secret@127.0.0.1:1/shop",
    "mssql": "mssql+pyodbc://app:secret@127.0.0.1:1/shop?driver=ODBC+Driver+18+for+SQL+Server",
    "oracle": "oracle+oracledb://app:secret@127.0.0.1:1/?service_name=shop",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_source_says_that_it_was_compiled_and_not_run(name: str) -> None:
    source = plugins.load("database", plugins.name_of("database", URLS[name])).source(DatabaseOptions(url=URLS[name]))
    assert isinstance(source, Limited)
    assert source.marks_doubt
    first, *others = source.limits
    assert first.startswith("compiled, not run: ")
    assert KINDS[name].called in first
    assert "docs/other-sql.md" in first
    assert len(others) >= 3


@pytest.mark.parametrize("name", NAMES)
def test_versions_by_position_are_refused(name: str) -> None:
    """CockroachDB has functions for advisory locks, which lock nothing."""
    writer = OutboxWriter(None, "fencepost_", "position")
    with pytest.raises(ConfigurationError, match=rf"on {KINDS[name].called}.*use versions=\"counter\""):
        writer.statements(dialect_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_settled_rows_that_stay_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot have settled rows that stay"):
        Outbox(DatabaseOptions(url=URLS[name], settle="mark"))


@pytest.mark.parametrize("name", NAMES)
def test_nobody_answers_or_no_driver_is_there(name: str) -> None:
    """Either way the error names the database and says what to do, and no password."""
    source = plugins.load("database", name).source(DatabaseOptions(url=URLS[name], timeout_s=5.0))
    with pytest.raises((Unavailable, MissingExtra, ConfigurationError)) as raised:
        asyncio.run(source.connect())
    assert KINDS[name].called in raised.value.what
    assert raised.value.remedy
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "told", "says"),
    [
        ("mssql", 0, "READ_COMMITTED_SNAPSHOT is off"),
        ("mssql", False, "ALTER DATABASE"),
        ("oracle", "WE8ISO8859P1", "the character set WE8ISO8859P1"),
    ],
)
def test_a_server_that_is_set_up_otherwise_is_refused(name: str, told: object, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        check_server(Outbox(DatabaseOptions(url=URLS[name])), told)


@pytest.mark.parametrize(("name", "told"), [("mssql", True), ("mssql", 1), ("oracle", "AL32UTF8")])
def test_a_server_that_is_set_up_well_is_taken(name: str, told: object) -> None:
    check_server(Outbox(DatabaseOptions(url=URLS[name])), told)


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_are_printed_without_a_server_or_a_driver(name: str, tmp_path: Path) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(f'[relay]\nname = "a"\n[database]\nurl = "{URLS[name]}"\n[broker]\nurl = "memory://a"\n')
    told = run("schema", "print", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "fencepost_outbox" in told.stdout
    assert ("\nEND;\n/\n" in told.stdout) is (name == "oracle")
    assert ";;" not in told.stdout


# ------------------------------------------------------------------------------------------- a CockroachDB in disguise


WELCOME = b"R\x00\x00\x00\x08\x00\x00\x00\x00"  # AuthenticationOk, after which a server tells its settings
VERSION = b"crdb_version\0CockroachDB CCL v25.2.1\0"


def with_version(data: bytes) -> bytes:
    """The greeting of a PostgreSQL with one setting more, by which a CockroachDB is known."""
    return data.replace(WELCOME, WELCOME + b"S" + (len(VERSION) + 4).to_bytes(4, "big") + VERSION, 1)


@asynccontextmanager
async def disguised(url: str) -> AsyncIterator[str]:
    """The address of a PostgreSQL that greets as a CockroachDB does."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    async with proxy(parts.hostname, parts.port or 5432) as made:
        made.changed = with_version
        yield parts._replace(netloc=f"{parts.username}@127.0.0.1:{made.port}").geturl()


async def test_a_cockroachdb_is_no_postgresql(postgresql_url: str) -> None:
    """Its advisory locks lock nothing: two relays would lead, and entities would not be locked."""
    async with disguised(postgresql_url) as url:
        for call in (
            plugins.load("database", "postgresql").source(DatabaseOptions(url=url)).connect(),
            plugins.load("database", "postgresql").schema(DatabaseOptions(url=url)).missing(),
            plugins.load("election", "postgresql").lease_store(LeaseOptions(url=url)).open(),
        ):
            with pytest.raises(FencepostError, match=r"is a CockroachDB \(CockroachDB CCL v25\.2\.1\)") as raised:
                await call
            assert isinstance(raised.value, ConfigurationError)
            assert "cockroachdb://" in raised.value.remedy
