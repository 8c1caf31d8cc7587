"""What is MariaDB's own: levels of isolation, deadlocks, modes of SQL, and DDL that is not undone."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import OperationalError, connections, transaction
from django.db.migrations.state import ProjectState
from django.db.transaction import TransactionManagementError
from django.test import override_settings

from fencepost import NewMessage, Outbox
from fencepost.django import outbox
from fencepost.django.models import PendingMessage
from fencepost.errors import ConfigurationError, FixError
from tests.databases.mariadb_kit import ask, connected
from tests.in_django import project
from tests.in_django.conftest import Database
from tests.in_django.test_migrations import described, migrate


def placed(database: Database, **options: Any) -> None:
    """The same database, with OPTIONS."""
    project.place(database.alias, project.entry(database.url, **options))


def test_pymysql_is_mysqldb_for_django_only(mariadb: Database) -> None:
    """Other tests of this process may use mysqlclient."""
    driver: Any = connections["default"]
    assert driver.Database.__name__ == "pymysql"
    assert "pymysql" not in {getattr(sys.modules.get(name), "__name__", "") for name in ("MySQLdb", "MySQLdb.err")}


# -- order -------------------------------------------------------------------------------------------------------------

WRITERS, EACH, KEYS = 4, 12, ("pen", "ink")


@pytest.mark.parametrize("level", [None, "repeatable read"])
def test_writers_at_once_draw_versions_in_the_order_of_their_commits(mariadb: Database, level: str | None) -> None:
    """B5. Django's own level is READ COMMITTED."""
    placed(mariadb, **({} if level is None else {"isolation_level": level}))
    with transaction.atomic():
        outbox.add_all([NewMessage("stock", -1, key=key) for key in KEYS])
    assert isolation() == (level or "read committed").upper().replace(" ", "-")
    gate = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        try:
            gate.wait(10)
            for place in range(EACH):
                with transaction.atomic():
                    outbox.add("stock", number, key=KEYS[(number + place) % 2])
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    rows = mariadb.rows("key, version")
    for key in KEYS:
        versions = [version for name, version in rows if name == key]
        assert versions == list(range(1, 2 + WRITERS * EACH // 2)), key


def isolation() -> Any:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT @@tx_isolation")
        return cursor.fetchone()[0]


def test_a_deadlock_that_is_caught_commits_nothing(mariadb: Database) -> None:
    """The server has undone all of the transaction: what came after would be committed without what was before."""
    with transaction.atomic():
        outbox.add_all([NewMessage("stock", 0, key=key) for key in KEYS])
    holds, waits = threading.Event(), threading.Event()

    def other() -> None:
        """Has done more, so that the server undoes the other one."""
        with closing(connected(mariadb.url, autocommit=False)) as connection:
            Outbox().add_all(connection, [NewMessage("stock", n) for n in range(50)])
            Outbox().add(connection, "stock", 1, key="ink")
            holds.set()
            waits.wait(10)
            Outbox().add(connection, "stock", 2, key="pen")
            connection.rollback()

    def caught() -> None:
        with transaction.atomic():
            outbox.add("stock", "before", key="pen")
            holds.wait(10)
            waits.set()
            with pytest.raises(OperationalError, match="1213"):
                outbox.add("stock", "refused", key="ink")
            with pytest.raises(TransactionManagementError):
                outbox.add("stock", "after")

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(other)
        caught()
        done.result()
    assert mariadb.rows() == [("pen", 1, "0"), ("ink", 1, "0")]


# -- how the session is set up -----------------------------------------------------------------------------------------

MODES = ("", "ANSI,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES", "TRADITIONAL,PAD_CHAR_TO_FULL_LENGTH,NO_AUTO_VALUE_ON_ZERO")


@pytest.mark.parametrize("mode", MODES)
def test_what_is_added_is_the_same_in_every_mode_and_zone(mariadb: Database, mode: str) -> None:
    """E3, B9."""
    placed(mariadb, sql_mode=mode, init_command="SET time_zone = '+05:00'")
    moment = datetime(2026, 3, 29, 1, 30, 0, 5, tzinfo=UTC)
    payload, key = b'\x00it\'s \\ "q" %s\xff', 'it\'s \\ "k" %s 😀'
    with transaction.atomic():
        first = outbox.add("files", payload, key=key, headers={"h": "ü \\'"}, occurred_at=moment)
        outbox.add("files", b"", key=key)
        outbox.add_all([NewMessage("files", None, key=key.upper()), NewMessage("files", 1, key=key)])
    one, empty, grave, last = PendingMessage.objects.order_by("seq")
    assert (one.message_id, one.payload, one.occurred_at) == (first.id, payload, moment)
    assert one.headers == json.dumps({"h": "ü \\'"}, ensure_ascii=False, separators=(",", ":"))
    assert (empty.payload, grave.payload, last.payload) == (b"", None, b"1")
    assert [(row.key, row.version) for row in (one, empty, last)] == [(key, 1), (key, 2), (key, 3)]
    assert (grave.key, grave.version) == (key.upper(), 1)


def test_keys_that_differ_in_case_are_different(mariadb: Database) -> None:
    """G4's rule, and the admin page's search."""
    with transaction.atomic():
        versions = [outbox.add("t", 1, key=key).version for key in ("a", "A", "á", "a")]
    assert versions == [1, 1, 1, 2]
    assert PendingMessage.objects.filter(key__exact="a").count() == 2


def test_a_character_set_without_most_characters_is_warned_about(mariadb: Database) -> None:
    assert advice() == []
    placed(mariadb, charset="utf8")
    assert [hint for hint in advice() if "utf8mb4" in hint] == advice() != []


def advice() -> list[str]:
    return [str(message.hint) for message in run_checks() if message.id == "fencepost.W001"]


def test_versions_by_position_are_refused_by_check_and_by_add(mariadb: Database) -> None:
    """H4."""
    with override_settings(FENCEPOST={"outbox": {"versions": "position"}}):
        (error,) = [each for each in run_checks() if each.id == "fencepost.E001"]
        assert '[outbox] (settings.FENCEPOST) has versions="position" on MariaDB' in error.msg
        assert "counter" in str(error.hint)
        with pytest.raises(ConfigurationError, match='use versions="counter"'), transaction.atomic():
            outbox.add("orders", 1, key="1")


# -- DDL that is not undone --------------------------------------------------------------------------------------------


@pytest.fixture
def empty(fresh_mariadb: str) -> Iterator[Database]:
    """ "default" without tables."""
    project.place("default", project.entry(fresh_mariadb))
    yield Database("default", fresh_mariadb)
    project.forget("default")


class Died(Exception):
    """What ends a migration."""


def dying_after(count: int, run: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run migrations that die after some statements of theirs about our tables."""
    from django.db.backends.mysql.schema import DatabaseSchemaEditor

    execute, left = DatabaseSchemaEditor.execute, [count]

    def counted(self: Any, sql: Any, params: Any = ()) -> Any:
        if "fencepost_" in str(sql):
            left[0] -= 1
            if left[0] < 0:
                raise Died
        return execute(self, sql, params)

    with monkeypatch.context() as patch:
        patch.setattr(DatabaseSchemaEditor, "execute", counted)
        with pytest.raises(Died):
            run()


def tables_of(database: Database) -> int:
    """How many of ours there are."""
    query = "SELECT count(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE %s"
    ((count,),) = ask(database.url, query, "fencepost%")
    return int(count)


@pytest.mark.parametrize("count", [1, 4])
def test_a_migration_that_died_half_way_is_run_again(
    empty: Database, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying_after(count, migrate, monkeypatch)
    assert tables_of(empty) == count
    migrate()
    whole = described(empty.url)
    dying_after(count, lambda: migrate("zero"), monkeypatch)
    assert tables_of(empty) == 5 - count
    migrate("zero")
    assert described(empty.url) == []
    migrate()
    assert described(empty.url) == whole


def test_messages_hold_up_one_that_died_half_way(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is not dropped because the migration is run for the second time."""
    migrate()
    dying_after(1, lambda: migrate("zero"), monkeypatch)  # the entities' table is gone, the outbox is there
    with transaction.atomic():
        outbox.add("orders", 1)
    with pytest.raises(FixError, match="fencepost_outbox has 1 message waiting"):
        migrate("zero")
    assert tables_of(empty) == 4


def test_settled_rows_that_stay_half_way(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from fencepost.django.operations import KeepSettled

    def keep() -> None:
        with connections["default"].schema_editor() as editor:
            KeepSettled().database_forwards("shop", editor, ProjectState(), ProjectState())

    migrate()
    dying_after(1, keep, monkeypatch)
    half = described(empty.url)
    keep()
    whole = described(empty.url)
    assert whole != half
    keep()
    assert described(empty.url) == whole
