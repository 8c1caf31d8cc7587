"""What is refused or warned about before anything is read from a table of somebody else, each time with the remedy."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost import app, plugins
from fencepost.brokers import memory
from fencepost.config import load
from fencepost.elections import memory as memory_leases
from fencepost.errors import ConfigurationError, FixError, GuaranteeUnavailable, SchemaMissing
from fencepost.events import Event, OutboxLimited
from fencepost.existing import ExistingTable, parts, problems
from fencepost.message import slot_of
from fencepost.ports import BrokerOptions, Capabilities, DatabaseOptions, Delivery, Lane, LeaseOptions, Source
from fencepost.relay import Relay, RelayOptions
from fencepost.relay.service import require
from tests.databases.mariadb_kit import ask, mariadb_database

TABLE = ExistingTable(
    table="shop_outbox",
    position="seq",
    topic="outbox.event.{aggregatetype}",
    key="aggregateid",
    type="{type}",
    payload="payload",
)
COLUMNS = "aggregatetype TEXT NOT NULL, aggregateid TEXT, type TEXT NOT NULL, payload TEXT"
GOOD = f"CREATE TABLE shop_outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, state TEXT, {COLUMNS})"
LANE = Lane("orders")


async def sqlite_source(folder: Path, ddl: str, table: ExistingTable = TABLE, **options: Any) -> Source:
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(ddl)
    made = DatabaseOptions(url=f"sqlite:///{folder / 'shop.db'}", table=table, **options)
    plugin = plugins.load("database", "sqlite")
    assert list(await plugin.schema(made).apply()) in (["fencepost_lease", "fencepost_parked"], [])
    source: Source = plugin.source(made)
    return source


WRONG = {
    "table": (replace(TABLE, table="orders_outbox"), GOOD, "no table orders_outbox", "correct"),
    "column": (replace(TABLE, key="aggregate_id"), GOOD, "no column 'aggregate_id', which .* key names", "aggregateid"),
    "template": (replace(TABLE, topic="x.{kind}"), GOOD, "no column 'kind', which .* topic names", "known are"),
    "payload": (
        TABLE,
        GOOD.replace("payload TEXT", "payload UUID"),
        "shop_outbox.payload is UUID",
        "binary, json, text",
    ),
    "order": (replace(TABLE, position="type"), GOOD, "has no order: the column type is TEXT", 'position = "rowid"'),
    "null": (
        TABLE,
        f"CREATE TABLE shop_outbox (seq INTEGER, id TEXT, {COLUMNS})",
        "shop_outbox.seq may be NULL",
        "NOT NULL",
    ),
    "number": (
        replace(TABLE, state="state", pending="new"),
        GOOD.replace("state TEXT", "state INTEGER"),
        "pending is 'new', and shop_outbox.state holds whole numbers",
        "number that means pending",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_table_that_cannot_be_an_outbox_is_refused(name: str, tmp_path: Path) -> None:
    table, ddl, what, remedy = WRONG[name]
    source = await sqlite_source(tmp_path, ddl, table)
    for call in (source.connect, source.backlog):
        with pytest.raises(FixError, match=what) as caught:
            await call()
        assert remedy in caught.value.remedy


async def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    table = replace(TABLE, key="aggregate_id", payload="paylod", topic="x.{kind}", state="type", pending="new")
    source = await sqlite_source(tmp_path, GOOD.replace("type TEXT", "type UUID"), table)
    with pytest.raises(ConfigurationError) as caught:
        await source.connect()
    assert caught.value.what.count("SQLite") == 1, "where it is stands once"
    for said in ("'aggregate_id', which [existing] key", "'paylod', which", "'kind', which", "type is UUID"):
        assert said in caught.value.what
    for remedy in ("did you mean 'aggregateid'?", "did you mean 'payload'?", "needs a column of this kind"):
        assert remedy in caught.value.remedy
    source = await sqlite_source(tmp_path, "", replace(TABLE, position="type", state="seq", pending="new"))
    with pytest.raises(ConfigurationError, match=r"has no order: .*; .*pending is 'new', and .* holds whole numbers"):
        await source.connect()


async def test_what_works_badly_is_warned_about_with_the_statement_that_mends_it(tmp_path: Path) -> None:
    ddl = GOOD.replace("PRIMARY KEY AUTOINCREMENT", "NOT NULL")
    source = await sqlite_source(tmp_path, ddl, replace(TABLE, state="state", pending="new"))
    lines = await source.advice()  # type: ignore[attr-defined]
    made = [line.rpartition(": ")[2] for line in lines]
    assert made == [
        "CREATE UNIQUE INDEX shop_outbox_seq ON shop_outbox (seq)",
        "CREATE INDEX shop_outbox_waiting ON shop_outbox (seq) WHERE state IN ('new')",
    ]
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript("; ".join(made))
    assert list(await source.advice()) == []  # type: ignore[attr-defined]


async def test_every_table_of_sqlite_has_an_order(tmp_path: Path) -> None:
    ddl = f"CREATE TABLE shop_outbox (id TEXT PRIMARY KEY NOT NULL, {COLUMNS})"
    source = await sqlite_source(tmp_path, ddl, replace(TABLE, position="rowid"))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        for name in ("z", "a", "m"):
            connection.execute("INSERT INTO shop_outbox VALUES (?, 'order', 'k', 'placed', '{}')", (name,))
    session = await source.connect()
    rows = list(await session.pending(LANE, 10))
    assert [(m.id, m.topic, m.type, m.payload) for m in rows] == [
        (name, "outbox.event.order", "placed", b"{}") for name in ("z", "a", "m")
    ]
    assert await session.settle([(rows[0].position, rows[1].id), (rows[1].position, rows[1].id)]) == 1
    assert [m.id for m in await session.pending(LANE, 10)] == ["z", "m"]
    await session.close()


async def test_without_a_column_for_them_failures_are_remembered(tmp_path: Path) -> None:
    """Also by the next session; and forgotten with the message."""
    source = await sqlite_source(tmp_path, GOOD)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        insert = "INSERT INTO shop_outbox (id, aggregatetype, aggregateid, type) VALUES (?, 'order', 'k', 'placed')"
        connection.executemany(insert, [("a",), ("b",)])
    session = await source.connect()
    first, second = await session.pending(LANE, 10)
    await session.failed([(first, "no")])
    await session.close()
    session = await source.connect()
    assert [m.attempts for m in await session.pending(LANE, 10)] == [1, 0]
    await session.park([(first._replace(attempts=1), "no")])
    assert [m.id for m in await session.pending(LANE, 10)] == [second.id]
    await session.close()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        parked = connection.execute(
            "SELECT id, topic, key, slot, attempts, reason, seq FROM fencepost_parked"
        ).fetchall()
    assert parked == [("a", "outbox.event.order", "k", slot_of("k", "a"), 1, "no", first.position)]


async def test_rows_in_other_states_are_none_of_ours(tmp_path: Path) -> None:
    table = replace(TABLE, state="state", pending="new", in_doubt="sending")
    source = await sqlite_source(tmp_path, GOOD, table)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        insert = "INSERT INTO shop_outbox (id, aggregatetype, type, state) VALUES (?, 'order', 'placed', ?)"
        connection.executemany(insert, [("a", "new"), ("b", "draft"), ("c", "sending"), ("d", None)])
    session = await source.connect()
    assert [(m.id, m.in_doubt) for m in await session.pending(LANE, 10)] == [("a", False), ("c", True)]
    assert await session.held([(1, 10)]) == [(1, "a"), (3, "c")]
    assert await session.settle([(1, "a"), (2, "b"), (3, "c"), (4, "d")]) == 2
    await session.close()


# ---------------------------------------------------------------------------------------------------- other databases


async def test_in_postgresql_a_uuid_and_a_time_give_an_order_and_two_texts_none(fresh_database: str) -> None:
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE shop_outbox (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text,"
            " type text NOT NULL, payload jsonb, created_at timestamptz NOT NULL, number text)"
        )
    plugin = plugins.load("database", "postgresql")

    def source(**changes: Any) -> Any:
        return plugin.source(DatabaseOptions(url=fresh_database, table=replace(TABLE, **changes)))

    await plugin.schema(DatabaseOptions(url=fresh_database, table=TABLE)).apply()
    with pytest.raises(ConfigurationError, match="no order: the column number is text") as caught:
        await source(position="number").connect()
    assert "ALTER TABLE shop_outbox ADD COLUMN position bigint GENERATED ALWAYS AS IDENTITY UNIQUE" in str(caught.value)
    with pytest.raises(ConfigurationError, match="no order: a time orders rows only where their id is a uuid"):
        await source(position="created_at", id="number").connect()
    (line,) = await source(position="created_at").advice()
    assert line.endswith("CREATE INDEX shop_outbox_created_at_id ON shop_outbox (created_at, id)")
    await (await source(position="created_at").connect()).close()
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute("ALTER TABLE shop_outbox ADD COLUMN n bigint GENERATED ALWAYS AS IDENTITY")
    with pytest.raises(FixError, match="could not be set aside, because parked messages have a UUID"):
        await source(position="n", id="n").connect()


@asynccontextmanager
async def mariadb(url: str, name: str) -> AsyncIterator[str]:
    with mariadb_database(url, name) as made:
        ask(
            made,
            "CREATE TABLE shop_outbox (seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, id CHAR(36) NOT NULL,"
            " aggregatetype VARCHAR(50) NOT NULL, aggregateid VARCHAR(50), type VARCHAR(50) NOT NULL, payload JSON)"
            " ENGINE = MyISAM",
        )
        yield made


async def test_in_mariadb_a_table_without_transactions_is_refused(mariadb_url: str, fresh_name: str) -> None:
    async with mariadb(mariadb_url, fresh_name) as url:
        plugin = plugins.load("database", "mariadb")
        options = DatabaseOptions(url=url, table=TABLE)
        with pytest.raises(FixError, match=r"engine MyISAM.*; has no table fencepost_parked: ALTER TABLE .*; run"):
            await plugin.source(options).connect()
        ask(url, "ALTER TABLE shop_outbox ENGINE = InnoDB")
        with pytest.raises(SchemaMissing, match="fencepost_parked"):
            await plugin.source(options).connect()
        await plugin.schema(options).apply()
        await (await plugin.source(options).connect()).close()


# ----------------------------------------------------------------------------------------------- configuration, start


CONFIGURATION = """
[relay]
name = "orders"
[database]
url = "sqlite:///shop.db"
{database}
[broker]
url = "memory://existing"
[existing]
{existing}
"""
NAMED = 'table = "shop_outbox"\nposition = "seq"\ntopic = "{aggregatetype}"\npayload = "payload"\n'


@pytest.mark.parametrize(
    ("database", "existing", "said"),
    [
        ("", 'table = "shop_outbox"', r"\[existing\] position .* is missing"),
        ("", NAMED.replace("{aggregatetype}", "a{b"), "a brace without its partner"),
        ("", NAMED + 'pending = "new"', "needs a column of states"),
        ("", NAMED + 'state = "state"', r"pending .* is missing"),
        ('settle = "mark"', NAMED, r"state .* needs a column"),
        ('settle = "mark"', NAMED + 'state = "state"\npending = 0', r"settled .* is missing"),
        ("", NAMED + 'state = "state"\npending = 0\nparked = "0"', "as another state"),
        ("", NAMED + 'positon = "seq"', "did you mean 'position'"),
        (
            'settle = "mark"\nretention_s = 60',
            NAMED + 'state = "state"\npending = 0\nsettled = 1',
            "nobody knows what is old enough",
        ),
    ],
)
def test_a_map_that_contradicts_itself_is_refused(tmp_path: Path, database: str, existing: str, said: str) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(CONFIGURATION.format(database=database, existing=existing))
    with pytest.raises(ConfigurationError, match=said):
        load(file, {})


def test_a_whole_map_is_read(tmp_path: Path) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(
        CONFIGURATION.format(database='settle = "mark"', existing=NAMED + 'state = "s"\npending = 0\nsettled = 1')
    )
    made = app.database(load(file, {})).table
    assert made == ExistingTable(
        table="shop_outbox",
        position="seq",
        topic="{aggregatetype}",
        payload="payload",
        state="s",
        pending="0",
        settled="1",
    )
    assert parts("a.{b}{c}.d") == [("text", "a."), ("column", "b"), ("column", "c"), ("text", ".d")]
    assert next(iter(problems({}, settle="delete", retention=False)))[0] == "table"


async def test_a_database_without_tables_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(CONFIGURATION.format(database="", existing=NAMED).replace("sqlite:///shop.db", "memory://x"))
    with pytest.raises(ConfigurationError, match="an existing table cannot be the outbox in memory"):
        app.source(load(file, {}))


async def test_check_tells_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await sqlite_source(tmp_path, GOOD)
    file = tmp_path / "fencepost.toml"
    file.write_text(CONFIGURATION.format(database="", existing=NAMED))
    report = await app.check(load(file, {}))
    assert report.ok, report
    told = [finding.what for finding in report.findings if finding.what.startswith("limit: ")]
    assert any("no lock of the entity" in line for line in told)
    assert any("no delayed messages" in line for line in told)


async def test_check_tells_tables_that_are_missing_and_a_wrong_map_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(GOOD)
    file = tmp_path / "fencepost.toml"

    async def found(existing: str) -> list[str]:
        file.write_text(CONFIGURATION.format(database="", existing=existing))
        missing, *others = [f.what for f in (await app.check(load(file, {}))).findings if f.part == "database"]
        assert "these tables, or parts of them, are missing: fencepost_lease, fencepost_parked" in missing
        return others

    assert await found(NAMED) == []
    (wrong,) = await found(f'{NAMED}key = "aggregate_id"')
    assert "no column 'aggregate_id'" in wrong
    (wrong,) = await found(NAMED.replace("shop_outbox", "shop_outbx"))
    assert "has no table shop_outbx" in wrong


async def test_the_start_tells_the_limits(tmp_path: Path) -> None:
    events: list[Event] = []
    url = "memory://limits"

    def observe(event: Event) -> None:
        if isinstance(event, OutboxLimited):
            events.append(event)
            relay.stop()

    relay = Relay(
        await sqlite_source(tmp_path, GOOD),
        memory.broker(BrokerOptions(url=url, source="/t")),
        memory_leases.lease_store(LeaseOptions(url=url)),
        LANE,
        "owner",
        RelayOptions(),
        observe,
    )
    await relay.run()
    (told,) = events
    assert isinstance(told, OutboxLimited)
    assert len(told.limits) >= 5


async def test_a_broker_that_repeats_needs_a_state_for_what_is_being_sent(tmp_path: Path) -> None:
    plain = Capabilities(delivery=Delivery.PLAIN, reason="files")
    with pytest.raises(GuaranteeUnavailable, match="no state for what is being sent"):
        require("auto", plain, await sqlite_source(tmp_path, GOOD))
    table = replace(TABLE, state="state", pending="new", in_doubt="sending")
    (tmp_path / "other").mkdir()
    require("auto", plain, await sqlite_source(tmp_path / "other", GOOD, table))
