"""Messages inside ``transaction.atomic``: with their savepoints, their databases, their routers, and nowhere else."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import ProgrammingError, connection, connections, transaction
from django.test import TestCase, override_settings

from fencepost import AsyncOutbox, NewMessage, Outbox, Versions
from fencepost.django import outbox
from fencepost.errors import ConfigurationError, MessageRefused, NoTransaction, SchemaMissing, VersionConflict
from fencepost.newmessage import Encoder
from tests.in_django import project
from tests.in_django.conftest import Database


class Undone(Exception):
    """What ends a block."""


def test_a_message_is_committed_with_its_transaction(default: Database) -> None:
    with transaction.atomic():
        first = outbox.add("orders", {"id": 1}, key="1", type="order.placed", headers={"trace": "a"})
    with transaction.atomic():
        second = outbox.add("orders", {"id": 2}, key="1")
        third = outbox.add("orders", None)
    assert (first.version, second.version, third.version) == (1, 2, None)
    assert default.rows("key, version, type") == [
        ("1", 1, "order.placed"),
        ("1", 2, "message"),
        (None, None, "message"),
    ]
    assert [str(row[0]) for row in default.rows("id")] == [first.id, second.id, third.id]


def test_a_message_is_rolled_back_with_its_transaction(default: Database) -> None:
    def undone() -> None:
        with transaction.atomic():
            outbox.add("orders", 1, key="1")
            raise Undone

    with pytest.raises(Undone):
        undone()
    with transaction.atomic():
        outbox.add("orders", 2, key="1")
        transaction.set_rollback(True)
    with transaction.atomic():
        outbox.add("orders", 3, key="1")
    assert default.rows() == [("1", 1, "3")]


def test_a_savepoint_takes_its_own_messages_along(default: Database) -> None:
    """C12."""

    def undone() -> None:
        with transaction.atomic():
            outbox.add("orders", "inside", key="1")
            raise Undone

    with transaction.atomic():
        outbox.add("orders", "before", key="1")
        with pytest.raises(Undone):
            undone()
        with transaction.atomic():
            outbox.add("orders", "kept", key="1")
        point = transaction.savepoint()
        outbox.add("orders", "by hand", key="1")
        transaction.savepoint_rollback(point)
        outbox.add("orders", "after", key="1")
    assert default.rows() == [("1", 1, '"before"'), ("1", 2, '"kept"'), ("1", 3, '"after"')]


def test_many_at_once(default: Database) -> None:
    with transaction.atomic():
        sent = outbox.add_all([NewMessage("stock", n, key=key) for n, key in enumerate(("pen", "ink", "pen"))])
    assert [(message.key, message.version) for message in sent] == [("pen", 1), ("ink", 1), ("pen", 2)]
    assert default.rows() == [("pen", 1, "0"), ("ink", 1, "1"), ("pen", 2, "2")]


def test_every_column_arrives_as_it_was_given(default: Database) -> None:
    moment = datetime(2026, 3, 29, 1, 30, 0, 5, tzinfo=UTC)
    later = datetime(2999, 1, 1, tzinfo=UTC)
    with transaction.atomic():
        outbox.add("files", b"\x00\xff%s", key="50%", headers={"h": "ü%"}, occurred_at=moment, available_at=later)
    ((payload, key, headers, occurred_at, state),) = default.rows("payload, key, headers, occurred_at, state")
    assert (bytes(payload), key, headers, state) == (b"\x00\xff%s", "50%", '{"h":"ü%"}', 2)
    naive = moment.replace(tzinfo=None)
    assert occurred_at == {"postgresql": moment, "mysql": naive}.get(default.kind, "2026-03-29 01:30:00.000005")


def test_without_a_transaction_it_is_refused(default: Database) -> None:
    with pytest.raises(NoTransaction) as refused:
        outbox.add("orders", 1, key="1")
    assert refused.value.what == "Django's connection 'default' has no transaction open"
    assert refused.value.remedy == "add inside `with transaction.atomic():`"
    with transaction.atomic():
        pass
    with pytest.raises(NoTransaction):
        outbox.add("orders", 1, key="1")
    assert default.rows() == []


def test_a_transaction_by_hand(default: Database) -> None:
    transaction.set_autocommit(False)
    try:
        outbox.add("orders", 1, key="1")
        transaction.rollback()
        outbox.add("orders", 2, key="1")
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert default.rows() == [("1", 1, "2")]


def test_what_a_test_case_has_open_is_no_transaction(default: Database) -> None:
    """Otherwise a test would pass, and the code fail where it is used."""
    seen: list[str] = []

    class Case(TestCase):
        databases = {"default"}  # noqa: RUF012 - so Django declares it

        def test(self) -> None:
            with pytest.raises(NoTransaction):
                outbox.add("orders", 1, key="1")
            with transaction.atomic():
                outbox.add("orders", 2, key="1")
            seen.extend(text for _, _, text in default.rows())

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])
    assert seen == ["2"]
    assert default.rows() == []


# -- several databases -------------------------------------------------------------------------------------------------


class ToOther:
    """A router that sends the app to "other"."""

    def db_for_write(self, model: Any, **_: Any) -> str | None:
        return "other" if model._meta.app_label == "fencepost" else None


def test_the_database_is_named_routed_or_set(default: Database, other: Database) -> None:
    with transaction.atomic(using="other"):
        outbox.add("orders", "named", key="1", using="other")
        with pytest.raises(NoTransaction, match=r"one is open on 'other': pass using='other' if that is meant"):
            outbox.add("orders", "nowhere", key="1")
    with override_settings(DATABASE_ROUTERS=[ToOther()]), transaction.atomic(using="other"):
        outbox.add("orders", "routed", key="1")
    chosen = {"database": {"using": "other"}}
    with override_settings(FENCEPOST=chosen), transaction.atomic(using="other"):
        outbox.add("orders", "set", key="1")
        with pytest.raises(NoTransaction, match=r"'default' has no transaction"):
            outbox.add("orders", "nowhere", key="1", using="default")
    assert [text for _, _, text in other.rows()] == ['"named"', '"routed"', '"set"']
    assert default.rows() == []
    with pytest.raises(NoTransaction, match=r"transaction.atomic\(using='other'\)"):
        outbox.add("orders", 1, using="other")


def test_two_databases_in_one_request(default: Database, other: Database) -> None:
    with transaction.atomic(), transaction.atomic(using="other"):
        outbox.add("orders", 1, key="1")
        outbox.add("orders", 2, key="1", using="other")
    assert (default.rows(), other.rows()) == ([("1", 1, "1")], [("1", 1, "2")])


def test_an_alias_that_is_not_there(sqlite: Database) -> None:
    with (
        override_settings(FENCEPOST={"database": {"using": "othr"}}),
        pytest.raises(ConfigurationError, match="'other'"),
    ):
        outbox.add("orders", 1)


# -- coroutines --------------------------------------------------------------------------------------------------------


async def in_thread(function: Callable[..., Any], *arguments: Any, thread_sensitive: bool = True) -> Any:
    """As a view calls it. The thread outlives the test, which changes where the alias leads."""

    def call() -> Any:
        try:
            return function(*arguments)
        finally:
            project.forget("default")

    return await sync_to_async(call, thread_sensitive=thread_sensitive)()


async def test_from_a_coroutine(sqlite: Database) -> None:
    def place(number: int) -> int | None:
        with transaction.atomic():
            return outbox.add("orders", number, key="1").version

    with pytest.raises(NoTransaction, match="no transactions in a coroutine: put the transaction into a function"):
        outbox.add("orders", 0, key="1")
    assert await in_thread(place, 1) == 1
    assert await in_thread(place, 2, thread_sensitive=False) == 2
    assert await in_thread(sqlite.rows) == [("1", 1, "1"), ("1", 2, "2")]


# -- the general outbox ------------------------------------------------------------------------------------------------


async def test_the_general_outbox_takes_the_connection(default: Database) -> None:
    versions: Versions = "counter" if default.kind == "mysql" else "position"  # test_mariadb.py: it is refused there

    def both() -> None:
        with transaction.atomic():
            Outbox().add(connection, "orders", 1, key="1")
            Outbox(versions=versions).add(connections["default"], "audit", 2, key="1")

    await in_thread(both)
    with pytest.raises(ConfigurationError, match="pass the connection or session"):
        Outbox().add(connections, "orders", 1)
    with pytest.raises(NoTransaction):
        await AsyncOutbox().add(connection, "orders", 1)
    assert len(await in_thread(default.rows)) == 2


def test_the_wrong_outbox(sqlite: Database) -> None:
    flow = AsyncOutbox().add(connection, "orders", 1, key="1")
    with transaction.atomic(), pytest.raises(ConfigurationError, match="use Outbox, whose calls are not awaited"):
        flow.send(None)
    assert sqlite.rows() == []


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_missing_tables_name_the_command(default: Database) -> None:
    nobody = {"database": {"prefix": "nobody_"}}
    said = pytest.raises(SchemaMissing, match=r"nobody_outbox.*: run `python manage.py migrate`")
    with override_settings(FENCEPOST=nobody), said, transaction.atomic():
        outbox.add("orders", 1, key="1")
    if default.kind != "sqlite":
        with pytest.raises(ProgrammingError), transaction.atomic():
            connection.cursor().execute("SELECT nothing FROM nowhere")


def test_the_remedy_names_another_database(default: Database) -> None:
    with pytest.raises(SchemaMissing, match="migrate --database=other"), transaction.atomic(using="other"):
        outbox.add("orders", 1, key="1", using="other")


def test_refusals_leave_the_transaction_as_it_is(default: Database) -> None:
    with transaction.atomic():
        outbox.add("accounts", 1, key="ada", version=7)
        with pytest.raises(VersionConflict):
            outbox.add("accounts", 2, key="ada", version=7)
        with pytest.raises(MessageRefused, match="key is not text but 7"):
            outbox.add("accounts", 3, key=7)  # type: ignore[arg-type]
        outbox.add("accounts", 4, key="ada", version=8)
    assert default.rows() == [("ada", 7, "1"), ("ada", 8, "4")]


def test_an_unknown_kind_of_database(sqlite: Database) -> None:
    project.place("other", {"ENGINE": "django.db.backends.dummy"})
    with pytest.raises(ConfigurationError, match=r"cannot be kept in Django's 'unknown': use one of .*postgresql"):
        outbox.add("orders", 1, using="other")


# -- payloads and options ----------------------------------------------------------------------------------------------


def test_payloads_are_djangos_json(sqlite: Database) -> None:
    with transaction.atomic():
        outbox.add("payments", {"amount": Decimal("1.10"), "at": datetime(2026, 1, 1, tzinfo=UTC), "who": "Zoë"})
        with pytest.raises(MessageRefused, match="cannot be encoded"):
            outbox.add("payments", {"amount": float("nan")})
    assert sqlite.rows("CAST(payload AS TEXT)") == [('{"amount":"1.10","at":"2026-01-01T00:00:00Z","who":"Zoë"}',)]


UPPER = Encoder(lambda value: str(value).upper().encode(), "text/plain")


@pytest.mark.parametrize("encoder", [UPPER, "tests.in_django.test_outbox.UPPER"])
def test_options_of_the_outbox(sqlite: Database, encoder: object) -> None:
    options = {"versions": "position", "max_bytes": 5, "encoder": encoder}
    with override_settings(FENCEPOST={"outbox": options}), transaction.atomic():
        outbox.add("orders", "abc", key="1")
        with pytest.raises(MessageRefused, match="the limit is 5"):
            outbox.add("orders", "abcdef", key="1")
    assert sqlite.rows("content_type, version, CAST(payload AS TEXT)") == [("text/plain", None, "ABC")]
