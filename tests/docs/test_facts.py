"""What the tables of the documentation say is what the program does: names, defaults, headers, limits."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sqlite3
from pathlib import Path

import pytest

import fencepost
from fencepost import errors, events
from fencepost.brokers.kafka import settings as kafka
from fencepost.brokers.nats import settings as nats
from fencepost.envelope import Format, envelope
from fencepost.message import KEY_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX, TYPE_CHARACTERS_MAX, Stored
from fencepost.newmessage import Attributes, NewMessage
from fencepost.outbox import Outbox
from fencepost.ports import Delivery
from fencepost.relay import RelayOptions
from tests.docs.pages import TREE, names_in, table_rows, the_block

DOCS = TREE / "docs"


def shown(value: object) -> str:
    """A default as a table shows it: texts in backticks and quotes, the rest as it is."""
    return f'`"{value}"`' if isinstance(value, str) else str(value)


def test_every_argument_of_a_message_is_described() -> None:
    assert [names_in(row[0])[0] for row in table_rows(DOCS / "outbox.md", "argument")] == [
        *("topic", "payload", "key", "type", "headers", "version", "content_type", "id", "occurred_at", "available_at")
    ]
    assert {names_in(row[0])[0] for row in table_rows(DOCS / "outbox.md", "argument")} == set(NewMessage._fields)
    add = set(inspect.signature(Outbox.add).parameters) - {"self", "tx", "attributes"}
    assert add | set(Attributes.__annotations__) == set(NewMessage._fields)


def test_every_option_of_an_outbox_is_named() -> None:
    page = (DOCS / "outbox.md").read_text()
    for name in set(inspect.signature(Outbox.__init__).parameters) - {"self", "clock"}:
        assert f"`{name}`" in page or f'`{name}="' in page, name


def test_the_limits_of_a_message() -> None:
    rows = {row[0]: row[1] for row in table_rows(DOCS / "outbox.md", "what")}
    assert rows["`topic`"].startswith(f"1 to {TOPIC_CHARACTERS_MAX} ")
    assert rows["`key`"].startswith(f"1 to {KEY_CHARACTERS_MAX} ")
    assert rows["`type`, `content_type`"].startswith(f"1 to {TYPE_CHARACTERS_MAX} ")


def test_every_option_of_the_relay_with_its_default() -> None:
    rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / "relay.md", "option")}
    assert rows == {field.name: shown(field.default) for field in dataclasses.fields(RelayOptions)}


def test_every_event_with_its_fields() -> None:
    kinds = [kind for kind in vars(events).values() if inspect.isclass(kind) and issubclass(kind, events.Event)]
    expected = {
        kind.__name__: [field.name for field in dataclasses.fields(kind) if field.name != "lane"]
        for kind in kinds
        if kind is not events.Event
    }
    assert len(expected) > 10
    rows = table_rows(DOCS / "events.md", "event")
    assert {names_in(row[0])[0]: names_in(row[1]) for row in rows} == expected


def test_every_error_in_its_family() -> None:
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    expected = {kind.__name__: _family(kind) for kind in kinds if _family(kind) is not None}
    assert len(expected) > 10
    rows = table_rows(DOCS / "errors.md", "error")
    assert {names_in(row[0])[0]: names_in(row[1])[0] for row in rows} == expected


FAMILIES = (errors.FixError, errors.RetryError, errors.ParkError, errors.StopError)


def _family(kind: type[Exception]) -> str | None:
    """The family of an error; None for the families and the root."""
    if kind in {*FAMILIES, errors.FencepostError}:
        return None
    return next(family.__name__ for family in FAMILIES if issubclass(kind, family))


def test_the_errors_that_are_exported() -> None:
    """`from fencepost import X` works for those that an application meets."""
    page = (DOCS / "errors.md").read_text()
    (paragraph,) = re.findall(r"^From `fencepost`.*?\n\n", page, re.MULTILINE | re.DOTALL)
    exported = {n for n in fencepost.__all__ if isinstance(value := getattr(fencepost, n), type) and _is_error(value)}
    assert set(names_in(paragraph)) - {"fencepost", "fencepost.errors"} == exported


def _is_error(value: type) -> bool:
    return issubclass(value, errors.FencepostError)


def test_every_setting_of_nats_with_its_default() -> None:
    rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / "nats.md", "NATS setting")}
    expected = {}
    for field in dataclasses.fields(nats.Settings):
        expected[field.name] = shown(field.default) if field.default not in ("", ()) else "none"
    assert rows == expected


def test_every_setting_of_kafka() -> None:
    rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / "kafka.md", "Kafka setting")}
    assert set(rows) == set(kafka.OWN_SETTINGS)
    assert rows["partitioner"] == shown(kafka._PARTITIONERS[0])
    page = (DOCS / "kafka.md").read_text()
    assert all(f"`{name}`" in page for name in kafka._PARTITIONERS)


def test_the_headers_of_a_message() -> None:
    stored = Stored(1, "id", "t", "k", 1, "type", b"", "application/json", None, 0, in_doubt=True)
    for heading, prefix in (("Kafka", "ce_"), ("NATS", "ce-")):
        expected = {name for name, _ in envelope(Format.CLOUDEVENTS_BINARY, "/orders", prefix).headers(stored)}
        column = {"Kafka": 0, "NATS": 1}[heading]
        assert {names_in(row[column])[0] for row in table_rows(DOCS / "wire.md", "Kafka header")} == expected


def test_the_classes_of_delivery() -> None:
    rows = table_rows(DOCS / "guarantees.md", "class")
    assert [names_in(row[1])[0] for row in rows] == [delivery.value for delivery in Delivery]


@pytest.fixture
def shop(tmp_path: Path) -> sqlite3.Connection:
    from fencepost.databases.sqlite import schema
    from fencepost.ports import DatabaseOptions

    connection = sqlite3.connect(tmp_path / "shop.db")
    for statement in schema(DatabaseOptions(url=f"sqlite:///{tmp_path / 'shop.db'}")).statements():
        connection.execute(statement)
    return connection


def test_parked_messages_are_moved_back(shop: sqlite3.Connection) -> None:
    with shop:
        for number in range(3):
            Outbox().add(shop, "orders", number, key="a")
    columns = [column for _, column, *_ in shop.execute("PRAGMA table_info(fencepost_parked)")]
    kept = [column for column in columns if column not in ("parked_at", "reason")]
    shop.execute(
        f"INSERT INTO fencepost_parked ({', '.join(kept)}, parked_at, reason) "
        f"SELECT {', '.join(kept)}, '2026-03-01 00:00:00.000000', 'too large' FROM fencepost_outbox"
    )
    before = "SELECT id, topic, key, version, slot, payload FROM fencepost_outbox ORDER BY seq"
    rows = shop.execute(before).fetchall()
    shop.execute("DELETE FROM fencepost_outbox")
    shop.executescript(the_block(DOCS / "relay.md", "sql", "requeue").text)
    assert shop.execute(before).fetchall() == rows
    assert shop.execute("SELECT min(seq), min(state), count(*) FROM fencepost_outbox").fetchone() == (4, 0, 3)
    assert shop.execute("SELECT count(*) FROM fencepost_parked").fetchone() == (0,)
    shop.close()
