"""What the tables of the documentation say is what the program does: names, defaults, headers, limits."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import fencepost
from fencepost import errors, events
from fencepost.aws.publishing import encode as publishing
from fencepost.brokers.file import settings as file
from fencepost.brokers.http import settings as http
from fencepost.brokers.kafka import settings as kafka
from fencepost.brokers.mqtt import settings as mqtt
from fencepost.brokers.nats import settings as nats
from fencepost.brokers.rabbitmq import settings as rabbitmq
from fencepost.brokers.redis import settings as redis
from fencepost.brokers.sns import settings as sns
from fencepost.brokers.sql import settings as inbox
from fencepost.brokers.sqs import settings as sqs
from fencepost.cli.program import program
from fencepost.envelope import Format, envelope
from fencepost.message import KEY_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX, TYPE_CHARACTERS_MAX, Stored
from fencepost.newmessage import Attributes, NewMessage
from fencepost.outbox import Outbox
from fencepost.ports import Delivery
from fencepost.relay import RelayOptions
from fencepost.sql.messages import message_tables
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


def test_every_setting_of_redis_with_its_default() -> None:
    rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / "redis-streams.md", "Redis setting")}
    fields = dataclasses.fields(redis.Settings)
    assert rows == {field.name: "none" if field.default in ("", None) else shown(field.default) for field in fields}


def test_every_setting_of_an_inbox_table_with_its_default() -> None:
    rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / "inbox-table.md", "inbox setting")}
    fields = dataclasses.fields(inbox.Settings)
    assert rows == {field.name: shown(field.default) if field.default else "none" for field in fields}


def test_every_column_of_an_inbox_table() -> None:
    named = [name for row in table_rows(DOCS / "inbox-table.md", "column") for name in names_in(row[0])]
    assert sorted(named) == sorted(column.name for column in message_tables().messages.columns)


def test_every_setting_of_rabbitmq_with_its_default() -> None:
    rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / "rabbitmq.md", "RabbitMQ setting")}
    usual = rabbitmq.Settings()
    given = {field.name: getattr(usual, field.name) for field in dataclasses.fields(usual)}
    assert rows == {name: shown(value) if value else "none" for name, value in given.items()}
    page = (DOCS / "rabbitmq.md").read_text()
    assert all(f"`{kind}`" in page for kind in (*rabbitmq._TYPES, *rabbitmq._QUEUE_TYPES))


def test_every_setting_of_mqtt_with_its_default() -> None:
    rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / "mqtt.md", "MQTT setting")}
    fields = dataclasses.fields(mqtt.Settings)
    expected = {
        f.name: f"`{str(f.default).lower()}`" if isinstance(f.default, bool) else shown(f.default) for f in fields
    }
    unset = {f.name: "none" for f in fields if f.default in ("", None)}
    assert rows == expected | unset


def test_every_setting_of_kafka() -> None:
    rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / "kafka.md", "Kafka setting")}
    assert set(rows) == set(kafka.OWN_SETTINGS)
    assert rows["partitioner"] == shown(kafka._PARTITIONERS[0])
    page = (DOCS / "kafka.md").read_text()
    assert all(f"`{name}`" in page for name in kafka._PARTITIONERS)


def test_every_setting_of_http_with_its_default() -> None:
    rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / "http.md", "HTTP setting")}
    usual = http.Settings()
    given = {field.name: getattr(usual, field.name) for field in dataclasses.fields(usual)}
    assert rows == {name: shown(value) if value else "none" for name, value in given.items()}


def test_every_setting_of_sqs_and_sns_with_its_default() -> None:
    for name, kind in (("SQS", sqs.Settings), ("SNS", sns.Settings)):
        rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / f"{name.lower()}.md", f"{name} setting")}
        given = {field.name: field.default for field in dataclasses.fields(kind)}
        usual = {name: "none" if value in ("", None) else shown(value) for name, value in given.items()}
        assert rows == usual | {"fifo": "`true`"}
    named = {names_in(row[0])[0] for row in table_rows(DOCS / "sqs.md", "SQS attribute")}
    assert named == {publishing.HEADERS, publishing.TOMBSTONE, publishing.BODY, publishing.TOPIC}


def test_every_setting_of_files_with_its_default() -> None:
    rows = {names_in(row[0])[0]: row[1] for row in table_rows(DOCS / "file.md", "file setting")}
    usual = file.Settings()
    assert rows == {"fsync": f"`{str(usual.fsync).lower()}`", "line_bytes_max": shown(usual.line_bytes_max)}


def test_the_headers_of_a_message() -> None:
    stored = Stored(1, "id", "t", "k", 1, "type", b"", "application/json", None, 0, in_doubt=True)
    for heading, prefix in (("Kafka", "ce_"), ("NATS", "ce-")):
        expected = {name for name, _ in envelope(Format.CLOUDEVENTS_BINARY, "/orders", prefix).headers(stored)}
        column = {"Kafka": 0, "NATS": 1}[heading]
        assert {names_in(row[column])[0] for row in table_rows(DOCS / "wire.md", "Kafka header")} == expected


def test_the_classes_of_delivery() -> None:
    rows = table_rows(DOCS / "guarantees.md", "class")
    assert [names_in(row[1])[0] for row in rows] == [delivery.value for delivery in Delivery]


def test_the_options_of_parked_are_those_of_the_page() -> None:
    text = the_block(DOCS / "cli.md", "text", "parked").text
    written = {line.split()[2]: set(re.findall(r"--[a-z-]+", line)) for line in text.splitlines()}
    choice = written["list"] - {"--limit", "--json"}
    written["retry"] |= choice
    written["discard"] |= choice
    group: Any = program(pretty=False).commands["parked"]
    for name, command in group.commands.items():
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
        assert options - {"--config", "--debug", "--help"} == written.pop(name), name
    assert not written
