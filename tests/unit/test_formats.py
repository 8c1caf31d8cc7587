"""The wire formats, without a broker: what becomes headers and what becomes the body."""

from __future__ import annotations

import json
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost import app
from fencepost.config import Config, load
from fencepost.envelope import LEFT_OUT, STRUCTURED, Format, envelope
from fencepost.errors import ConfigurationError
from fencepost.message import Stored, microseconds
from fencepost.ports import BrokerOptions
from fencepost.testing.messages import PAYLOADS

WHEN = datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=UTC)
ID = "018f2f6e-6c63-7cc4-8c1a-5f0f3ac01d2e"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PLAIN = Stored(
    1, ID, "orders", "order-1", 3, "order.placed", b'{"cents":1}', "application/json", None, microseconds(WHEN)
)


def test_structured_has_every_attribute_and_the_payload() -> None:
    made = envelope(Format.CLOUDEVENTS_STRUCTURED, "/orders", "ce_")
    message = PLAIN._replace(headers={"traceparent": TRACE, "tenant": "a"}, in_doubt=True)
    assert made.headers(message) == [("content-type", STRUCTURED), ("traceparent", TRACE), ("tenant", "a")]
    assert json.loads(made.body(message) or b"") == {
        "specversion": "1.0",
        "id": ID,
        "source": "/orders",
        "type": "order.placed",
        "time": "2026-03-01T12:00:00.000250+00:00",
        "datacontenttype": "application/json",
        "subject": "order-1",
        "entityversion": "3",
        "possiblerepeat": "true",
        "traceparent": TRACE,
        "data": {"cents": 1},
    }


def test_structured_leaves_out_what_a_message_does_not_have() -> None:
    made = envelope(Format.CLOUDEVENTS_STRUCTURED, "/orders", "ce_")
    attributes = json.loads(made.body(PLAIN._replace(key=None, version=None)) or b"")
    assert not {"subject", "entityversion", "possiblerepeat", "traceparent"} & attributes.keys()


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("content_type", ["application/json", "application/problem+json; charset=utf-8", "text/plain"])
def test_structured_carries_every_payload_byte_for_byte(payload: bytes, content_type: str) -> None:
    """E3"""
    check_structured(payload, content_type)


@given(st.binary(max_size=60), st.sampled_from(["application/json", "image/png"]))
def test_structured_carries_any_bytes(payload: bytes, content_type: str) -> None:
    check_structured(payload, content_type)


@given(
    st.recursive(
        st.none() | st.floats() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_structured_carries_any_json(value: object) -> None:
    check_structured(json.dumps(value).encode(), "application/json")


def check_structured(payload: bytes, content_type: str) -> None:
    body = envelope(Format.CLOUDEVENTS_STRUCTURED, "/o", "ce_").body(
        PLAIN._replace(payload=payload, content_type=content_type)
    )
    assert body is not None
    event = json.loads(body, parse_constant=_no_json)
    assert ("data" in event) is not ("data_base64" in event)
    if "data" in event:
        assert "json" in content_type
        assert body.endswith(b',"data":%b}' % payload)
    else:
        assert b64decode(event["data_base64"], validate=True) == payload


def _no_json(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def test_what_is_json_stands_as_json() -> None:
    made = envelope(Format.CLOUDEVENTS_STRUCTURED, "/o", "ce_")
    for payload in (b"1e400", b'{"a":1,"a":2}', b"123456789012345678901234567890.5", b" [null, {}] "):
        assert (made.body(PLAIN._replace(payload=payload)) or b"").endswith(b',"data":%b}' % payload)
    for payload in (b"NaN", b"", b"{", b'"a"x', b"\xff", b"\xef\xbb\xbf1", b'1,"id":"x"', b"[" * 100_000):
        assert b'"data_base64":' in (made.body(PLAIN._replace(payload=payload)) or b"")


@pytest.mark.parametrize("form", Format)
def test_a_tombstone_has_no_body_in_any_format(form: Format) -> None:
    """E7"""
    made, gone = envelope(form, "/orders", "ce_"), PLAIN._replace(payload=None)
    assert made.body(gone) is None
    assert ID in dict(made.headers(gone)).values()


@pytest.mark.parametrize("form", Format)
def test_every_format_marks_a_possible_repeat(form: Format) -> None:
    made = envelope(form, "/orders", "")
    for in_doubt in (True, False):
        message = PLAIN._replace(in_doubt=in_doubt)
        assert ("possiblerepeat" in f"{made.headers(message)}{made.body(message)!r}") is in_doubt


def test_plain_and_debezium() -> None:
    message = PLAIN._replace(headers={"eventType": "OrderPlaced", "id": "mine"})
    own = [("eventType", "OrderPlaced")]
    assert envelope(Format.PLAIN, "/o", "ce_").headers(message) == [("id", ID), ("version", "3"), *own]
    assert envelope(Format.DEBEZIUM, "/o", "ce_").headers(message) == [("id", ID), *own]
    assert envelope(Format.PLAIN, "/o", "ce_").headers(PLAIN._replace(version=None)) == [("id", ID)]


def test_headers_get_other_names_or_are_left_out() -> None:
    names = {"ce_id": "event-id", "ce_time": LEFT_OUT, "tenant": "x-tenant"}
    made = envelope(Format.CLOUDEVENTS_BINARY, "/orders", "ce_", names)
    headers = made.headers(PLAIN._replace(headers={"tenant": "a", "event-id": "mine", "more": "b"}))
    assert len(headers) == len(dict(headers))
    found = dict(headers)
    assert found["event-id"] == ID
    assert (found["x-tenant"], found["more"]) == ("a", "b")
    assert not {"ce_id", "ce_time", "tenant"} & found.keys()
    assert made.body(PLAIN) == PLAIN.payload


def test_the_usual_format_is_the_plugins() -> None:
    options = BrokerOptions(url="memory://x", source="/orders")
    assert options.envelope("ce_", Format.PLAIN).headers(PLAIN)[0] == ("id", ID)
    chosen = BrokerOptions(url="memory://x", source="/orders", form=Format.DEBEZIUM)
    assert chosen.envelope("ce_", Format.PLAIN).headers(PLAIN) == [("id", ID)]


# -- the configuration -------------------------------------------------------------------------------------------------

TOML = """\
[relay]
name = "orders"
[database]
url = "memory://formats"
[broker]
url = "memory://formats"
format = "plain"
[broker.header_map]
id = "event-id"
version = false
"""


def read(folder: Path, text: str) -> Config:
    file = folder / "fencepost.toml"
    file.write_text(text)
    return load(file, {})


def test_a_configuration_says_the_format(tmp_path: Path) -> None:
    config = read(tmp_path, TOML)
    assert config.broker.header_map == {"id": "event-id", "version": ""}
    assert config.broker.settings == {}
    made = app.broker(config).options.envelope("ce_")  # type: ignore[attr-defined]
    assert made.headers(PLAIN) == [("event-id", ID)]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('format = "plain"', 'format = "cloudevent"', r"\[broker\] format .*line 7.*cloudevent"),
        ('id = "event-id"', "id = 3", r"\[broker\] header_map.id .*line 9.* is 3"),
        ('id = "event-id"', 'id = "a b"', r"\[broker\] header_map.id .*line 9.*a b"),
        (
            '[broker.header_map]\nid = "event-id"\nversion = false',
            'header_map = "x"',
            r"header_map .*line 8.* is not a table",
        ),
    ],
)
def test_mistakes_are_told_with_their_line(old: str, new: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read(tmp_path, TOML.replace(old, new))
