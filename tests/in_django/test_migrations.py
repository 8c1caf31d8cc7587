"""The app's migration makes the same tables as `fencepost schema apply`, where the routers allow it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.test import override_settings

from fencepost import plugins
from fencepost.django import outbox, parked
from fencepost.django.operations import CreateTables, KeepSettled
from fencepost.errors import ConfigurationError, FixError
from fencepost.ports import DatabaseOptions
from tests.databases.mariadb_kit import ask
from tests.in_django import project
from tests.in_django.conftest import Database
from tests.in_django.manage import python
from tests.migrations import catalogues


def migrate(*arguments: str, alias: str = "default") -> None:
    call_command("migrate", "fencepost", *arguments, database=alias, verbosity=0)


@pytest.fixture
def empty_mariadb(fresh_mariadb: str) -> Iterator[Database]:
    """MariaDB as "default", without tables."""
    yield from _placed(fresh_mariadb)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """ "default" without tables."""
    if request.param == "sqlite":
        yield from _placed(f"sqlite:///{tmp_path}/empty.db")
    else:
        name = "fresh_database" if request.param == "postgresql" else "fresh_mariadb"
        yield from _placed(request.getfixturevalue(name))


def _placed(url: str) -> Iterator[Database]:
    project.place("default", project.entry(url))
    yield Database("default", url)
    project.forget("default")


def described(url: str, schema: str | None = None, prefix: str = "fencepost_") -> list[str]:
    if url.startswith("sqlite"):
        return catalogues.sqlite(Path(url.removeprefix("sqlite:///")), prefix)
    if url.startswith("mysql"):
        return catalogues.mariadb(url, schema, prefix)
    return catalogues.postgresql(url, schema or "public", prefix)


def apply(url: str, **names: Any) -> list[str]:
    """What `fencepost schema apply` does."""
    options = DatabaseOptions(url=url, **names)
    return list(asyncio.run(plugins.load("database", plugins.name_of("database", url)).schema(options).apply()))


def test_it_makes_what_schema_apply_makes_and_takes_it_away(empty: Database) -> None:
    migrate()
    made = described(empty.url)
    assert apply(empty.url) == []
    migrate("zero")
    assert described(empty.url) == []
    assert len(apply(empty.url)) == 5
    assert described(empty.url) == made
    assert len(made) > 6
    migrate()
    assert described(empty.url) == made, "tables that are there are left alone"


def test_going_back_loses_no_message(empty: Database) -> None:
    migrate()
    with transaction.atomic():
        outbox.add("orders", 1, key="1")
    with pytest.raises(FixError, match="fencepost_outbox has 1 message waiting, which would be lost"):
        migrate("zero")
    key = connections["default"].ops.quote_name("key")
    connections["default"].cursor().execute(
        f"INSERT INTO fencepost_parked SELECT id, topic, {key}, version, type, slot, payload, content_type, headers,"
        " occurred_at, available_at, attempts, seq, occurred_at, 'no' FROM fencepost_outbox"
    )
    connections["default"].cursor().execute("DELETE FROM fencepost_outbox")
    with pytest.raises(FixError, match="fencepost_parked has 1 message parked"):
        migrate("zero")
    ((message_id,),) = empty.rows("id", "parked")
    assert parked.discard([str(message_id)]) == [str(message_id)]
    migrate("zero")


def test_models_and_migrations_agree(sqlite: Database) -> None:
    said = io.StringIO()
    call_command("makemigrations", "fencepost", check=True, dry_run=True, stdout=said)
    assert "No changes detected" in said.getvalue()


def test_what_would_be_done_is_printed(empty: Database) -> None:
    said = io.StringIO()
    call_command("sqlmigrate", "fencepost", "0001", stdout=said)
    assert "-- Create the tables of Fencepost, revision 1" in said.getvalue()
    assert said.getvalue().count("CREATE TABLE") == 5
    assert described(empty.url) == []


@pytest.mark.parametrize("later", [False, True])
def test_settled_rows_that_stay(empty: Database, later: bool) -> None:
    marking = {"database": {"settle": "mark"}}
    with override_settings(FENCEPOST={} if later else marking):
        migrate()
    if later:
        with connections["default"].schema_editor() as editor:
            KeepSettled().database_forwards("shop", editor, None, None)
    assert apply(empty.url, settle="mark") == []
    with transaction.atomic():
        outbox.add("orders", 1)
        connections["default"].cursor().execute("UPDATE fencepost_outbox SET state = 3")
    with override_settings(FENCEPOST=marking):
        migrate("zero")  # what is settled is no loss
    assert described(empty.url) == []


class NotInOther:
    """A router that keeps the app out of "other"."""

    def allow_migrate(self, db: str, app_label: str, **_: Any) -> bool | None:
        return db != "other" if app_label == "fencepost" else None


def test_routers_decide_where_tables_are_made(empty: Database, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.db"
    project.place("other", project.entry(url))
    with override_settings(DATABASE_ROUTERS=[NotInOther()]):
        migrate()
        migrate(alias="other")
        migrate("zero", alias="other")
    assert len(described(empty.url)) > 6
    assert described(url) == []


def test_a_database_that_cannot_hold_them(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    class Editor:
        connection = connections["default"]

    monkeypatch.setattr(connections["default"], "vendor", "oracle")
    with pytest.raises(ConfigurationError, match="Django's 'oracle'"):
        CreateTables(1).database_forwards("fencepost", Editor(), None, None)


WITH_OTHER_NAMES = """
from django.core.management import call_command
from django.db import transaction

from fencepost.django import outbox
from fencepost.django.models import PendingMessage

call_command("migrate", "fencepost", verbosity=0)
call_command("makemigrations", check=True, dry_run=True, verbosity=0)
with transaction.atomic():
    outbox.add("orders", 1, key="1")
print([(m.topic, m.version) for m in PendingMessage.objects.all()])
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_other_names(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A process of its own, because models have their names from the settings once. A12."""
    url = f"sqlite:///{tmp_path}/names.db"
    names: dict[str, Any] = {"prefix": "Tell_"}
    if kind == "postgresql":
        url = request.getfixturevalue("fresh_database")
        names["schema"] = "My schema"
        with psycopg.connect(url) as connection:
            connection.execute('CREATE SCHEMA "My schema"')
    if kind == "mariadb":
        url = request.getfixturevalue("fresh_mariadb")
        names["schema"] = f"{urlsplit(url).path[1:]}: mine"
    try:
        assert python(tmp_path, url, {"database": names}, WITH_OTHER_NAMES) == "[('orders', 1)]"
        made = described(url, names.get("schema"), "Tell_")
        assert len(made) > 6
        assert apply(url, **names) == []
    finally:
        if kind == "mariadb":  # where a schema is a database
            ask(url, f"DROP DATABASE `{names['schema']}`")
