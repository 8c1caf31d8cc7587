"""A dump of a database, restored elsewhere: what waited when it was made is published (C9)."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
import pytest

from fencepost.brokers.memory import MemoryServer
from fencepost.events import DatabaseFellBack
from fencepost.relay.lane import LaneOptions
from fencepost.testing.relaying import new_server, relayed
from tests.databases.mariadb_kit import mariadb_database
from tests.databases.places import LANE, MariadbPlace, Place, PostgresqlPlace, SqlitePlace, row

Restore = Callable[[], Place]

OPTIONS = LaneOptions(batch=3, poll_s=0.05)
TABLES = ("outbox", "entity", "parked", "lease", "lane")
BEFORE, AFTER = 10, 4


def program(name: str) -> str:
    """A client program of a database's, wherever it is."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda f: float(f.parent.name), reverse=True)
    places = [shutil.which(name), *(str(folder / name) for folder in folders)]
    found = next((place for place in places if place and Path(place).exists()), None)
    assert found, f"no {name} here: it comes with the client programs of the database"
    return found


def dumped(place: PostgresqlPlace, url: str) -> Restore:
    """By pg_dump and psql, which carry the tables and the sequence."""
    command = [program("pg_dump"), "--no-owner", *(f"--table={place.options.prefix}*",), place.options.url]
    script = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def restore() -> Place:
        command = [program("psql"), "--quiet", "--set=ON_ERROR_STOP=1", url]
        subprocess.run(command, check=True, input=script, capture_output=True, text=True)
        return replace(place, options=replace(place.options, url=url))

    return restore


def copied(place: PostgresqlPlace, url: str) -> Restore:
    """By COPY into tables that were made there. It carries no sequence, which whoever does it sets."""
    rows = {}
    with psycopg.connect(place.options.url) as connection:
        for table in TABLES:
            with connection.cursor().copy(f"COPY {place.options.prefix}{table} TO STDOUT".encode()) as copy:
                rows[table] = b"".join(bytes(block) for block in copy)

    def restore() -> Place:
        found = replace(place, options=replace(place.options, url=url))
        for text in found.schema.statements():
            found.ask(text.replace("%", "%%"))
        with psycopg.connect(url) as connection:
            for table, block in rows.items():
                with connection.cursor().copy(f"COPY {place.options.prefix}{table} FROM STDIN".encode()) as copy:
                    copy.write(block)
            sequence = f"pg_get_serial_sequence('{place.outbox}', 'seq')"
            connection.execute(f"SELECT setval({sequence}, (SELECT max(seq) FROM {place.outbox}))".encode())
        return found

    return restore


@pytest.fixture(params=["pg_dump", "COPY", "sqlite", "mariadb-dump"])
def made(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str
) -> Iterator[tuple[Place, Callable[[], Restore]]]:
    """A database, and how a dump of it is made now and restored later."""
    if request.param == "sqlite":
        sqlite: SqlitePlace = request.getfixturevalue("sqlite")
        yield sqlite, lambda: _copied_file(sqlite, tmp_path / "restored.db")
        return
    if request.param == "mariadb-dump":
        mariadb: MariadbPlace = request.getfixturevalue("mariadb")
        with mariadb_database(request.getfixturevalue("mariadb_url"), f"{fresh_name}-restored") as elsewhere:
            yield mariadb, lambda: _copied_tables(mariadb, elsewhere)
        return
    place: PostgresqlPlace = request.getfixturevalue("postgresql")
    url: str = request.getfixturevalue("fresh_database")
    assert urlsplit(url).path != urlsplit(place.options.url).path
    dump = dumped if request.param == "pg_dump" else copied
    yield place, lambda: dump(place, url)


def _copied_tables(place: MariadbPlace, url: str) -> Restore:
    """By mariadb-dump, which carries the counters."""
    parts = urlsplit(place.options.url)
    server = ["--protocol=tcp", f"--host={parts.hostname}", f"--port={parts.port}", f"--user={parts.username}"]
    tables = [f"{place.options.prefix}{table}" for table in TABLES if table != "lane"]
    command = [program("mariadb-dump"), *server, "--single-transaction", unquote(parts.path[1:]), *tables]
    script = subprocess.run(command, check=True, capture_output=True).stdout

    def restore() -> Place:
        command = [program("mariadb"), *server, unquote(urlsplit(url).path[1:])]
        subprocess.run(command, check=True, input=script, capture_output=True)
        return replace(place, options=replace(place.options, url=url))

    return restore


def _copied_file(place: SqlitePlace, path: Path) -> Restore:
    with closing(sqlite3.connect(place.path)) as connection:
        connection.execute("VACUUM INTO ?", (str(path),))
    return lambda: replace(place, options=replace(place.options, url=f"sqlite:///{path}"))


async def publish(place: Place, server: MemoryServer, count: int) -> list[str]:
    """Run a relay until so many messages have been published in all; their ids, as readers see them."""
    async with relayed(place.source, LANE, OPTIONS, server) as relay:
        await relay.until(lambda: len(relay.ids("orders")) >= count, 30.0)
        fell_back = relay.told(DatabaseFellBack)
    assert bool(fell_back) is (count > BEFORE + AFTER)
    assert (await place.source.backlog()).pending == 0
    return relay.ids("orders")


async def test_c9_what_waited_is_published_at_a_new_broker(made: tuple[Place, Callable[[], Restore]]) -> None:
    place, dump = made
    added = place.add(*(row(key=f"k{n % 3}") for n in range(BEFORE)))
    restored = dump()()
    later = restored.add(*(row(key="k0") for _ in range(AFTER)))
    assert later[0][0] > added[-1][0]
    assert await publish(restored, new_server(), BEFORE + AFTER) == [id_ for _, id_ in added + later]


async def test_c9_what_was_published_since_the_dump_is_recognised_at_the_same_broker(
    made: tuple[Place, Callable[[], Restore]],
) -> None:
    """And positions that the lost part of the history had are not used again."""
    place, dump = made
    server = new_server()
    added = place.add(*(row(key=f"k{n % 3}") for n in range(BEFORE)))
    restore = dump()
    lost = place.add(*(row(key="k1") for _ in range(AFTER)))
    published = await publish(place, server, BEFORE + AFTER)
    assert published == [id_ for _, id_ in added + lost]
    restored = restore()
    early = restored.add(row(key="k2"))  # before any relay has looked: at a position that was used
    assert early[0][0] == lost[0][0]
    assert await publish(restored, server, BEFORE + AFTER + 1) == [*published, early[0][1]]
    (later,) = restored.add(row(key="k2"))
    assert later[0] > lost[-1][0]
