"""The tables: printed, made by several at once, made only where they are missing."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import sqlalchemy as sa

from fencepost.databases import postgresql, sqlite
from fencepost.errors import FixError
from fencepost.ports import DatabaseOptions
from fencepost.sql.tables import storage, tables
from tests.databases.places import LANE, Place, PostgresqlPlace, SqlitePlace, row


def names(place: Place) -> list[str]:
    prefix = place.options.prefix
    return [f"{prefix}{name}" for name in ("entity", "lane", "lease", "outbox", "parked")]


async def test_applying_again_does_nothing(place: Place) -> None:
    place.add(row())
    assert await place.schema.missing() == []
    assert await place.schema.apply() == []
    assert len(place.ask(f"SELECT * FROM {place.outbox}")) == 1


async def test_one_of_many_that_apply_at_once_makes_the_tables(place: Place) -> None:
    other = place.other(prefix=f"{place.options.prefix}many_")
    assert await other.schema.missing() == names(other)
    made = await asyncio.gather(*(other.schema.apply() for _ in range(6)))
    assert sorted(made, key=len) == [[], [], [], [], [], names(other)]
    assert await other.schema.missing() == []
    other.drop()


async def test_what_is_printed_makes_the_same_tables_and_may_be_run_twice(place: Place) -> None:
    other = place.other(prefix=f"{place.options.prefix}print_")
    statements = other.schema.statements()
    for text in [*statements, *statements]:
        other.ask(text.replace("%", "%%"))
    assert await other.schema.missing() == []
    assert await other.schema.apply() == []
    other.add(row())
    session = await other.source.connect()
    assert len(await session.pending(LANE, 10)) == 1
    await session.close()
    other.drop()


def test_nothing_is_asked_of_a_server_to_print() -> None:
    printed = postgresql.schema(DatabaseOptions(url="postgresql://nowhere/x", schema="My schema")).statements()
    assert printed[0] == 'CREATE SCHEMA IF NOT EXISTS "My schema"'
    assert len(printed) == 10
    assert all(("IF NOT EXISTS" in text or " SET (" in text) and "\t" not in text for text in printed)
    assert any("vacuum_truncate = false" in text for text in printed)
    printed = sqlite.schema(DatabaseOptions(url="sqlite:///nowhere.db")).statements()
    assert len(printed) == 7
    assert any("AUTOINCREMENT" in text for text in printed)


async def test_a_schema_is_made_and_named(postgresql: PostgresqlPlace) -> None:
    """A12."""
    other = postgresql.other(schema=f"{postgresql.options.prefix} Schema", prefix="x_")
    assert await other.schema.missing() == [f"{other.options.schema}.{name}" for name in names(other)]
    assert len(await other.schema.apply()) == 5
    assert await postgresql.schema.missing() == []
    other.drop()


async def test_who_may_not_create_may_still_apply_where_nothing_is_missing(
    postgresql: PostgresqlPlace, fresh_name: str
) -> None:
    user = f"user_{fresh_name.replace('-', '_')}"
    parts = urlsplit(postgresql.options.url)
    url = urlunsplit(parts._replace(netloc=f"{user}@{parts.hostname}:{parts.port}"))
    other = postgresql.other(schema=f"{postgresql.options.prefix}s")
    await other.schema.apply()
    postgresql.ask(f"CREATE USER {user}")
    postgresql.ask(f"GRANT USAGE ON SCHEMA {other.options.schema} TO {user}")
    try:
        theirs = PostgresqlPlace(replace(other.options, url=url))
        assert await theirs.schema.missing() == []
        assert await theirs.schema.apply() == []
    finally:
        other.drop()
        postgresql.ask(f"DROP OWNED BY {user}")
        postgresql.ask(f"DROP USER {user}")


async def test_the_tables_of_an_application_may_share_the_metadata(postgresql: PostgresqlPlace) -> None:
    """As Alembic sees them; the storage settings come along."""
    mine = sa.MetaData()
    sa.Table(f"{postgresql.options.prefix}mine", mine, sa.Column("id", sa.Integer, primary_key=True))
    postgresql.drop()
    tables(prefix=postgresql.options.prefix, metadata=mine)
    engine = sa.create_engine(postgresql.options.url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        mine.create_all(connection)
    engine.dispose()
    assert await postgresql.schema.missing() == []
    ((options,),) = postgresql.ask("SELECT reloptions FROM pg_class WHERE relname = %s", postgresql.outbox)
    assert "vacuum_truncate=false" in options
    made = {
        name for (name,) in postgresql.ask("SELECT indexname FROM pg_indexes WHERE tablename = %s", postgresql.outbox)
    }
    assert made == {f"{postgresql.outbox}_{index}" for index in ("pkey", "due", "ready")}
    postgresql.ask(f"DROP TABLE {postgresql.options.prefix}mine")


async def test_a_file_is_made_where_there_is_none(sqlite: SqlitePlace) -> None:
    sqlite.path.unlink()
    assert await sqlite.schema.missing() == names(sqlite)
    assert not sqlite.path.exists()
    assert await sqlite.schema.apply() == names(sqlite)
    with closing(sqlite3.connect(sqlite.path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("delete",)]


async def test_a_half_made_outbox_is_completed(place: Place) -> None:
    place.ask(f"DROP TABLE {place.options.prefix}parked")
    assert await place.schema.missing() == [f"{place.options.prefix}parked"]
    assert await place.schema.apply() == [f"{place.options.prefix}parked"]


async def test_an_interrupted_apply_leaves_nothing(postgresql: PostgresqlPlace) -> None:
    """Somebody has a type of that name: the third table fails, and none of them stays."""
    other = postgresql.other(prefix=f"{postgresql.options.prefix}half_")
    with psycopg.connect(postgresql.options.url, autocommit=True) as connection:
        connection.execute(f"CREATE TYPE {other.options.prefix}lease AS ENUM ()".encode())
        with pytest.raises(FixError, match="lease"):
            await other.schema.apply()
        connection.execute(f"DROP TYPE {other.options.prefix}lease".encode())
    assert await other.schema.missing() == names(other)


def test_a_migration_of_the_tables_can_be_written_down() -> None:
    """Alembic writes what a table's info holds as Python: nothing of ours may stand there."""
    made = tables(metadata=sa.MetaData())
    assert all(not table.info and not column.info for table in made.metadata.tables.values() for column in table.c)
    stored = {table.name for table in made.metadata.tables.values() if storage(table) is not None}
    assert stored == {"fencepost_entity", "fencepost_outbox"}
    assert storage(sa.Table("orders", sa.MetaData())) is None
