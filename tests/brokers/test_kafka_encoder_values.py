"""What encoders make of JSON, type by type: every value arrives as it was meant, or is refused with its place."""

import io
import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import fastavro
import pytest
from confluent_kafka.schema_registry import RegisteredSchema, Rule, RuleKind, RuleMode, RuleSet, Schema
from google.protobuf import descriptor_pool, json_format, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from fencepost.brokers.kafka.encoding.avro_values import Values
from fencepost.brokers.kafka.encoding.encoders import Encoder
from fencepost.brokers.kafka.encoding.forms import encoder
from fencepost.brokers.kafka.encoding.payload import Misfit, parsed
from fencepost.brokers.kafka.encoding.registry import Registry
from fencepost.errors import ConfigurationError
from fencepost.message import Stored
from tests.brokers.kafka_kit import message
from tests.brokers.registry_kit import proto, serialized

NOBODY = cast("Registry", None)
"""A schema that refers to no other one asks no registry."""
F = FieldDescriptorProto


def payload(text: str) -> Stored:
    return message(0, "t", payload=text.encode())


def version(text: str, kind: str, rules: RuleSet | None = None) -> RegisteredSchema:
    return RegisteredSchema("t-value", 1, 7, None, Schema(text, kind, [], None, rules))


def through_avro(schema: Any, text: str, *, drops_unknown: bool = False) -> Any:
    """A payload, encoded and read again by fastavro."""
    made = encoder("avro", "t-value", version(json.dumps(schema), "AVRO"), NOBODY, drops_unknown=drops_unknown)
    body = made.encode(payload(text))
    assert body[:5] == struct.pack(">bI", 0, 7)
    return fastavro.schemaless_reader(io.BytesIO(body[5:]), schema, None)


def logical(kind: str, its: str, /, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": its, **more}


MONEY = logical("bytes", "decimal", precision=30, scale=2)
WIDE = 12345678901234567890123456


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ("null", "null", None),
        ("boolean", "true", True),
        ("int", "-2147483648", -(2**31)),
        ("int", "1e3", 1000),
        ("long", "9223372036854775807", 2**63 - 1),
        ("long", '"9007199254740993"', 9007199254740993),
        ("double", "0.1", 0.1),
        ("double", "3", 3.0),
        ("double", '"-Infinity"', float("-inf")),
        ("float", "0.1", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        ("string", '"ä🎈"', "ä🎈"),
        ("bytes", '"AP8="', b"\x00\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, '"AP8="', b"\x00\xff"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, '"B"', "B"),
        (MONEY, f"{WIDE}.5", Decimal(f"{WIDE}.50")),
        (MONEY, f'"-{WIDE}.55"', Decimal(f"-{WIDE}.55")),
        (MONEY, "0.00", Decimal("0.00")),
        (logical("fixed", "decimal", name="D", size=4, precision=9, scale=3), '"-1.5"', Decimal("-1.500")),
        (logical("string", "uuid"), '"018F2F6E-6c63-7cc4-8c1a-5f0f3ac01d2e"', UUID("018f2f6e6c637cc48c1a5f0f3ac01d2e")),
        (logical("int", "date"), '"2026-03-01"', date(2026, 3, 1)),
        (logical("int", "date"), "1", date(1970, 1, 2)),
        (logical("int", "time-millis"), '"23:59:59.250"', time(23, 59, 59, 250_000)),
        (logical("long", "time-micros"), '"00:00:00.000001"', time(0, 0, 0, 1)),
        (
            logical("long", "timestamp-micros"),
            '"2026-03-01T13:00:00.000250+01:00"',
            datetime(2026, 3, 1, 12, 0, 0, 250, UTC),
        ),
        (
            logical("long", "timestamp-millis"),
            '"1969-12-31T23:59:59.5Z"',
            datetime(1969, 12, 31, 23, 59, 59, 500_000, UTC),
        ),
        (logical("long", "timestamp-nanos"), '"1970-01-01T00:00:01.000000001Z"', 1_000_000_001),
        (
            logical("long", "local-timestamp-micros"),
            '"2026-03-01T12:00:00"',
            datetime.fromisoformat("2026-03-01T12:00:00"),
        ),
        (logical("string", "of-tomorrow"), '"x"', "x"),
        ({"type": "array", "items": "int"}, "[1, 2]", [1, 2]),
        ({"type": "map", "values": ["null", "int"]}, '{"a": 1, "b": null}', {"a": 1, "b": None}),
        (["null", "long"], '"9007199254740993"', 9007199254740993),
        (["null", "double", "long"], "5", 5),
        (["null", "double", "long"], "5.5", 5.5),
        (["null", "bytes", "string"], '"abcd"', "abcd"),
        (["null", "bytes", "string"], '{"bytes": "abcd"}', b"i\xb7\x1d"),
        (["null", "string", {"type": "map", "values": "string"}], '{"string": "x"}', "x"),
        (["null", "int", {"type": "map", "values": "string"}], '{"int": "x"}', {"int": "x"}),
        (["null", MONEY], '"1.5"', Decimal("1.50")),
    ],
)
def test_values_of_avro(schema: Any, text: str, value: Any) -> None:
    """Numbers, bytes, texts, times, unions; nothing is rounded, cut off or guessed."""
    record = {"type": "record", "name": "R", "fields": [{"name": "f", "type": schema}]}
    found = through_avro(record, f'{{"f": {text}}}')["f"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("schema", "text", "why"),
    [
        ("int", "2147483648", "too large for int"),
        ("long", "9223372036854775808", "too large for long"),
        ("long", "1.5", "a number where the schema has long"),
        ("long", "true", "true or false where the schema has long"),
        ("long", '"five"', "a text where the schema has long"),
        ("double", "1e400", "more digits than a double keeps"),
        ("double", "9007199254740993", "more digits than a double keeps"),
        ("double", "0.10000000000000000001", "more digits than a double keeps"),
        ("float", "1e39", "too large for float"),
        ("string", "1", "a whole number where the schema has string"),
        ("string", '"\\ud800"', "half of a surrogate pair"),
        ("bytes", '"$$$$"', "no.* base64"),
        ({"type": "fixed", "name": "F", "size": 3}, '"AP8="', "2 bytes where the schema has 3"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, '"B"', "no such symbol"),
        (MONEY, '"1.005"', "30 digits, 2 of them"),
        (MONEY, f"{10**29}", "30 digits, 2 of them"),
        (MONEY, "1e999999", "30 digits, 2 of them"),
        (MONEY, '"NaN"', "a text where the schema has decimal"),
        (logical("string", "uuid"), '"x"', "no UUID"),
        (logical("int", "date"), '"2026-02-30"', "no such time"),
        (logical("long", "timestamp-micros"), '"2026-03-01T12:00:00"', "no such time"),
        (logical("long", "timestamp-millis"), '"2026-03-01T12:00:00.0001Z"', "finer than the schema's unit"),
        ({"type": "array", "items": "int"}, "[1, true]", r"^\[1\]: true or false"),
        ({"type": "map", "values": "int"}, '{"a": null}', "^a: null where"),
        (["null", "int", "string"], "[1]", r"a list fits no type of the union \(int, string\)"),
        ("string", "{", "not JSON: .*line 1"),
        ("double", "NaN", "NaN is no number of JSON"),
        ({"type": "map", "values": "int"}, '{"a": 1, "a": 2}', "a key twice"),
        ("string", "[" * 100_000, "nested too deeply"),
    ],
)
def test_values_that_avro_cannot_have(schema: Any, text: str, why: str) -> None:
    with pytest.raises(Misfit, match=why):
        through_avro(schema, text)


TREE = {
    "type": "record",
    "name": "Node",
    "namespace": "shop",
    "fields": [
        {"name": "value", "type": "int"},
        {"name": "next", "type": ["null", "Node"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["new"]},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "either", "type": ["string", "null"], "default": "x"},
        {"name": "maybe", "type": ["null", "string"]},
    ],
}


def test_records_of_avro() -> None:
    """Missing fields have their default, or null where that is allowed; a record may hold itself."""
    rest = {"tags": ["new"], "raw": b"\xff", "either": "x", "maybe": None}
    assert through_avro(TREE, '{"value": 1, "next": {"value": 2}}') == {
        "value": 1,
        "next": {"value": 2, "next": None, **rest},
        **rest,
    }


def test_fields_that_the_schema_has_not() -> None:
    text = '{"value": 1, "next": {"value": 2, "colour": "red"}}'
    with pytest.raises(Misfit, match=r"^next\.colour: the schema has no such field"):
        through_avro(TREE, text)
    assert through_avro(TREE, text, drops_unknown=True)["next"]["value"] == 2


def test_a_payload_that_is_nested_too_deeply() -> None:
    text = '{"value": 1, "next": ' * 300 + "null" + "}" * 300
    with pytest.raises(Misfit, match="nested too deeply"):
        through_avro(TREE, text)


@pytest.mark.parametrize("text", ["{", '{"type": "record"}', '"nothing"', '["null", {"type": "decimal"}]'])
def test_what_is_no_schema_of_avro(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"version 1 of t-value \(schema 7\) is no Avro schema"):
        encoder("avro", "t-value", version(text, "AVRO"), NOBODY, drops_unknown=False)


def test_rules_that_the_relay_does_not_run_are_refused() -> None:
    """They may encrypt a field: sending it plain would be worse than not sending it."""
    rule = Rule("r", None, RuleKind.TRANSFORM, RuleMode.WRITE, "ENCRYPT", None, None, None, None, None, False)
    rules = RuleSet(None, [rule])
    with pytest.raises(ConfigurationError, match="rules of a data contract"):
        encoder("avro", "t-value", version('"string"', "AVRO", rules), NOBODY, drops_unknown=False)


def test_a_default_of_a_union_that_avro_does_not_allow() -> None:
    fields = [{"name": "a", "type": ["null", "string"], "default": "x"}]
    with pytest.raises(ValueError, match="first type"):
        Values({"R": {"type": "record", "name": "R", "fields": fields}}, drops_unknown=False).converter("R")


# -- Protobuf ----------------------------------------------------------------------------------------------------------


def everything() -> FileDescriptorProto:
    """A message with a field of every kind of type."""
    kinds = {"whole": F.TYPE_INT64, "small": F.TYPE_UINT32, "real": F.TYPE_DOUBLE, "single": F.TYPE_FLOAT}
    file = proto(**kinds, yes=F.TYPE_BOOL, text=F.TYPE_STRING, raw=F.TYPE_BYTES)
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    order = file.message_type[0]
    colours = file.enum_type.add(name="Colour")
    for number, name in enumerate(("NONE", "RED")):
        colours.value.add(name=name, number=number)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    for number, (name, kind) in enumerate((("key", F.TYPE_STRING), ("value", F.TYPE_INT64)), 1):
        entry.field.add(name=name, number=number, type=kind, label=F.LABEL_OPTIONAL)
    _add(order, 11, "colour", F.TYPE_ENUM, ".shop.Colour")
    _add(order, 12, "at", F.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    _add(order, 13, "precise", F.TYPE_MESSAGE, ".google.protobuf.DoubleValue")
    _add(order, 14, "parts", F.TYPE_MESSAGE, ".shop.Order", F.LABEL_REPEATED)
    _add(order, 15, "counts", F.TYPE_MESSAGE, ".shop.Order.CountsEntry", F.LABEL_REPEATED)
    _add(order, 16, "unit_price", F.TYPE_STRING, "")
    return file


def _add(order: DescriptorProto, number: int, name: str, kind: Any, of: str, label: Any = F.LABEL_OPTIONAL) -> None:
    field = order.field.add(name=name, number=number, type=kind, label=label)
    if of:
        field.type_name = of


@pytest.fixture(scope="module")
def protobuf() -> Encoder:
    latest = version(serialized(everything()), "PROTOBUF")
    return encoder("protobuf", "t-value", latest, NOBODY, drops_unknown=False)


def read_back(body: bytes) -> dict[str, Any]:
    """What a program that was compiled with the schema reads, in JSON again."""
    assert body[:6] == struct.pack(">bIb", 0, 7, 0)
    pool = DescriptorPool()
    for known in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(everything().SerializeToString())
    made = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    found: dict[str, Any] = json_format.MessageToDict(made.FromString(body[6:]))
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"whole": 9007199254740993}', {"whole": "9007199254740993"}),
        ('{"whole": "9007199254740993", "small": 1e3}', {"whole": "9007199254740993", "small": 1000}),
        ('{"real": 0.1, "single": 0.5}', {"real": 0.1, "single": 0.5}),
        ('{"real": "NaN"}', {"real": "NaN"}),
        ('{"yes": true, "text": "ä🎈", "raw": "AP8="}', {"yes": True, "text": "ä🎈", "raw": "AP8="}),
        ('{"colour": "RED"}', {"colour": "RED"}),
        ('{"colour": 1, "text": null}', {"colour": "RED"}),
        ('{"at": "2026-03-01T12:00:00.000250Z"}', {"at": "2026-03-01T12:00:00.000250Z"}),
        ('{"precise": 0.1}', {"precise": 0.1}),
        ('{"parts": [{"small": 1}, {}]}', {"parts": [{"small": 1}, {}]}),
        ('{"counts": {"a": 1}}', {"counts": {"a": "1"}}),
        ('{"unitPrice": "1"}', {"unitPrice": "1"}),
        ('{"unit_price": "1"}', {"unitPrice": "1"}),
    ],
)
def test_values_of_protobuf(protobuf: Encoder, text: str, value: dict[str, Any]) -> None:
    """As a program reads them that was compiled with the schema."""
    assert read_back(protobuf.encode(payload(text))) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"whole": 9223372036854775808}', "^whole: the number is too large for int64"),
        ('{"whole": 1.5}', "^whole: a number where the schema has int64"),
        ('{"whole": true}', "^whole: true or false"),
        ('{"small": -1}', "^small: the number is too large for uint32"),
        ('{"real": 9007199254740993}', "^real: the number has more digits than a double keeps"),
        ('{"real": "0.10000000000000000001"}', "^real: the number has more digits"),
        ('{"precise": 0.10000000000000000001}', "^precise: the number has more digits"),
        ('{"yes": "true"}', "^yes: a text where the schema has bool"),
        ('{"text": 1}', "^text: a whole number where the schema has string"),
        ('{"raw": "$$$$"}', "^raw: .* base64"),
        ('{"colour": "BLUE"}', "^colour: .* no such value"),
        ('{"at": "4111 1111"}', "at: it does not fit"),
        ('{"parts": [{"small": 1}, {"text": []}]}', r"^parts\[1\]\.text: "),
        ('{"parts": {}}', "^parts: an object where the schema has a repeated field"),
        ('{"counts": [1]}', "^counts: a list where the schema has a map"),
        ('{"counts": {"a": "x"}}', r"^counts\.a: a text where the schema has int64"),
        ('{"parts": [null]}', r"^parts\[0\]: null where the schema has the message shop.Order"),
        ('{"parts": [{"nothing": 1}]}', r"^parts\[0\]\.nothing: the schema has no such field"),
        ("[]", "^a list where the schema has the message shop.Order"),
        ('{"text": "a", "text": "b"}', "a key twice"),
    ],
)
def test_values_that_protobuf_cannot_have(protobuf: Encoder, text: str, why: str) -> None:
    with pytest.raises(Misfit, match=why) as caught:
        protobuf.encode(payload(text))
    assert "4111" not in str(caught.value)


def test_fields_that_a_message_has_not_may_be_dropped() -> None:
    latest = version(serialized(everything()), "PROTOBUF")
    lenient = encoder("protobuf", "t-value", latest, NOBODY, drops_unknown=True)
    assert read_back(lenient.encode(payload('{"small": 1, "colouring": 1.25}'))) == {"small": 1}


def test_the_well_known_files_are_there() -> None:
    assert descriptor_pool.Default().FindFileByName("google/protobuf/timestamp.proto")


# -- JSON Schema -------------------------------------------------------------------------------------------------------


def test_a_payload_of_json_schema_is_checked_and_kept() -> None:
    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
    made = encoder("json-schema", "t-value", version(json.dumps(schema), "JSON"), NOBODY, drops_unknown=False)
    text = '{"cents": 1,  "much": 0.100000000000000000001}'
    assert made.encode(payload(text)) == struct.pack(">bI", 0, 7) + text.encode()
    with pytest.raises(Misfit, match=r"^cents: breaks the schema's 'type'"):
        made.encode(payload('{"cents": "4111"}'))
    with pytest.raises(Misfit, match="'cents' is a required property"):
        made.encode(payload("{}"))


def test_what_is_no_json_schema() -> None:
    with pytest.raises(ConfigurationError, match="is no JSON Schema"):
        encoder("json-schema", "t-value", version('{"type": 5}', "JSON"), NOBODY, drops_unknown=False)


@pytest.mark.parametrize("content_type", ["application/json", "application/JSON; charset=utf-8", "application/x+json"])
def test_content_types_that_are_json(content_type: str) -> None:
    assert parsed(payload("1")._replace(content_type=content_type)) == 1


def test_what_is_not_json_is_not_encoded() -> None:
    with pytest.raises(Misfit, match="application/avro, and only JSON"):
        parsed(payload("1")._replace(content_type="application/avro"))
    with pytest.raises(Misfit, match="not UTF-8"):
        parsed(payload("1")._replace(payload=b"\xff"))
