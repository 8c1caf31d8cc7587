"""What a message may be: everything else is refused when it is added, with the remedy."""

from __future__ import annotations

import uuid
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import MessageRefused
from fencepost.message import SLOTS, Message, check, slot_of

GOOD = Message(
    id="01890a5d-ac96-774b-bcce-b302099a8057",
    topic="orders",
    payload=b"{}",
    occurred_at=datetime(2026, 1, 2, tzinfo=UTC),
    key="1",
)

NAIVE = GOOD.occurred_at.replace(tzinfo=None)


def refused(message: str, **changes: Any) -> None:
    with pytest.raises(MessageRefused, match=message) as caught:
        check(replace(GOOD, **changes), max_bytes=1000)
    assert caught.value.remedy
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("topic", ["a", "orders.placed", "a_b", "a/b", "A-1", "x" * 249])
def test_topics_that_every_broker_can_name(topic: str) -> None:
    check(replace(GOOD, topic=topic), max_bytes=1000)


@pytest.mark.parametrize("topic", ["", " ", "a b", "a\n", "é", "a*", "a>", "a:b", "a\0", "x" * 250, "x" * 100_000])
def test_topics_that_are_refused(topic: str) -> None:
    """E4"""
    refused("^topic .* is not usable: 1 to 249 characters of A-Z a-z 0-9 . _ - / are", topic=topic)


@pytest.mark.parametrize("key", ["1", "a b", "é", "x" * 255, "\U0001f600" * 255])
def test_keys(key: str) -> None:
    check(replace(GOOD, key=key), max_bytes=1000)
    check(replace(GOOD, key=None), max_bytes=1000)


@pytest.mark.parametrize("key", ["", " ", "a ", "a\nb", "a\r", "x" * 256, "a\0b", "\ud800"])
def test_keys_that_are_refused(key: str) -> None:
    refused("^key .* on topic 'orders' is not usable", key=key)


@pytest.mark.parametrize("field", ["type", "content_type"])
@pytest.mark.parametrize("text", ["", " a", "a ", "a\r\nb", "x" * 256, "\udfff"])
def test_types_that_are_refused(field: str, text: str) -> None:
    refused(f"^{field} .* is not usable", **{field: text})


@pytest.mark.parametrize(
    "message_id",
    ["", "1", str(uuid.UUID(int=1)).replace("-", ""), "01890A5D-AC96-774B-BCCE-B302099A8057", f"{GOOD.id}\n"],
)
def test_ids_that_are_refused(message_id: str) -> None:
    refused("is not a UUID: pass str", id=message_id)


def test_ids_of_the_clock_are_accepted() -> None:
    check(replace(GOOD, id=SYSTEM_CLOCK.new_id()), max_bytes=1000)


@pytest.mark.parametrize("headers", [{"a": ""}, {"A-b_c.d": "αβγ"}, {"traceparent": "00-x-y-01"}, {"x" * 127: "1"}])
def test_headers(headers: dict[str, str]) -> None:
    """E6"""
    check(replace(GOOD, headers=headers), max_bytes=1000)


@pytest.mark.parametrize(
    "name",
    ["", "a b", "é", "a:b", "x" * 128, "ce_id", "CE-type", "Nats-Msg-Id", "content-type", "Fencepost-x", "a\n", 1],
)
def test_header_names_that_are_refused(name: Any) -> None:
    """E6"""
    refused("^header name .* is not usable", headers={name: "1"})


@pytest.mark.parametrize("value", [" a", "a ", "a\nb", "\0", "\x7f", "\ud800", 1, None, b"a", ["a", "b"]])
def test_header_values_that_are_refused(value: Any) -> None:
    """E6"""
    refused("^the value of header 'a' is not usable", headers={"a": value})


@pytest.mark.parametrize("field", ["id", "topic", "key", "type", "content_type"])
@pytest.mark.parametrize("value", [7, 1.5, b"a", uuid.UUID(int=7), ["x" * 1000]])
def test_what_is_not_text_is_refused(field: str, value: Any) -> None:
    refused(f"^{field} is not text but .*: pass text", **{field: value})


@pytest.mark.parametrize("payload", ["{}", bytearray(b"{}"), 1])
def test_payloads_that_are_not_bytes(payload: Any) -> None:
    refused("^the payload is not bytes", payload=payload)


@pytest.mark.parametrize("version", [1, 2**63 - 1])
def test_versions(version: int) -> None:
    check(replace(GOOD, version=version), max_bytes=1000)


@pytest.mark.parametrize("version", [0, -1, 2**63, True, 1.0, "1"])
def test_versions_that_are_refused(version: Any) -> None:
    refused("^version .* on topic 'orders': a version is a positive whole number", version=version)


def test_a_version_needs_a_key() -> None:
    refused("needs a key", version=1, key=None)


@pytest.mark.parametrize("field", ["occurred_at", "available_at"])
@pytest.mark.parametrize("moment", [NAIVE, NAIVE.date(), "2026-01-01T00:00:00Z", 1.5])
def test_times_without_a_zone_are_refused(field: str, moment: Any) -> None:
    """B9"""
    refused(f"^{field} .* has no time zone: pass an aware datetime", **{field: moment})


def test_size_is_counted_in_bytes() -> None:
    """E1"""
    check(replace(GOOD, payload=b"x" * 1000), max_bytes=1000)
    check(replace(GOOD, payload=b"x" * 993, headers={"abc": "é12"}), max_bytes=1000)
    check(replace(GOOD, payload=b"x" * 2_000_000), max_bytes=None)
    refused("has 1,001 bytes, the limit is 1,000", payload=b"x" * 1001)
    refused("has 1,001 bytes", payload=b"x" * 994, headers={"abc": "é12"})
    refused("has 1,012 bytes", payload="é".encode() * 506)


@given(st.text(), st.uuids())
def test_a_slot_is_stable(key: str, message_id: uuid.UUID) -> None:
    if key.encode("utf-8", "ignore").decode() != key:
        return
    assert slot_of(key, str(message_id)) == zlib.crc32(key.encode()) % SLOTS
    assert slot_of(None, str(message_id)) == zlib.crc32(str(message_id).encode()) % SLOTS


def test_slots_as_they_are_stored() -> None:
    """They are in tables: another function would move entities between lanes."""
    assert [slot_of(key, "") for key in ("1", "order-17", "é", "")] == [183, 20, 62, 0]
