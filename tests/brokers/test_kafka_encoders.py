"""Avro, Protobuf and JSON Schema on a real Kafka, with a real registry, read back by confluent_kafka's own readers."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from fencepost.app import build
from fencepost.app.checking import check
from fencepost.config.reader import made
from fencepost.errors import AccessDenied, ConfigurationError, ParkError, RetryError, SchemaMissing
from fencepost.message import Stored
from fencepost.ports import Broker, Failure, Lane, Outcome
from tests.brokers.kafka_kit import headers, message, opened, owning, read
from tests.brokers.registry_kit import (
    ORDER,
    ORDER_ID,
    PLACED,
    Gate,
    avro,
    gate,
    order,
    proto,
    protobuf,
    register,
    serialized,
    with_field,
)
from tests.brokers.test_kafka_publish import make_topic

LATEST = "schema.registry.cache.latest.ttl.sec"


@pytest.fixture
def door(registry_url: str) -> Iterator[Gate]:
    with gate(registry_url) as made:
        yield made


def settings(url: str, encoders: dict[str, str], **more: object) -> dict[str, object]:
    return {"encoders": encoders, "schema.registry.url": url, **more}


async def publish(kafka: Broker, lane: str, batch: list[Stored]) -> Outcome:
    async with owning(kafka, Lane(lane)) as handoff:
        return await handoff.publish(batch)


async def failures(kafka: Broker, lane: str, batch: list[Stored]) -> list[Failure]:
    outcome = await publish(kafka, lane, batch)
    assert not outcome.published
    assert outcome.failed
    return list(outcome.failed)


async def test_each_topic_has_its_encoder(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    """The first pattern that matches decides; a topic without one, and one with "none", go as they are."""
    topics = [f"{fresh_name}.{name}" for name in ("avro", "proto", "json", "raw", "other")]
    file = proto(id=FieldDescriptorProto.TYPE_STRING, cents=FieldDescriptorProto.TYPE_INT64)
    register(registry_url, topics[0], ORDER)
    register(registry_url, topics[1], serialized(file), "PROTOBUF")
    register(registry_url, topics[2], {"type": "object", "properties": {"cents": {"type": "integer"}}}, "JSON")
    encoders = {
        f"{fresh_name}.avro": "avro",
        "*.proto": "protobuf",
        f"{fresh_name}.raw": "none",
        f"{fresh_name}.j*": "json-schema",
        f"{fresh_name}.r*": "avro",
    }
    batch = [order(n, topic) for n, topic in enumerate(topics)]
    async with opened(kafka_url, settings(registry_url, encoders)) as kafka:
        outcome = await publish(kafka, fresh_name, batch)
    assert outcome.published == batch, "what was published is told as it came"
    records = [read(kafka_url, topic)[0] for topic in topics]
    assert avro(registry_url, records[0]) == {"id": UUID(ORDER_ID), "cents": PLACED["cents"], "note": None}
    found = protobuf(registry_url, records[1], file)
    assert (found.id, found.cents) == (ORDER_ID, PLACED["cents"])
    bodies = [record.value() for record in records]
    assert bodies[2] is not None
    assert bodies[2][:1] == b"\0"
    assert bodies[2][5:] == batch[2].payload, "byte for byte"
    assert bodies[3:] == [batch[3].payload, batch[4].payload]
    assert [headers(record)["content-type"] for record in records] == [
        "application/avro",
        "application/protobuf",
        *["application/json"] * 3,
    ]
    assert headers(records[0])["ce_id"] == batch[0].id
    assert records[0].key() == b"key-0"


async def test_tombstones_stay_null_and_json_null_is_none(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    """Case E7: a payload `null` is a value of a schema that allows it, and no tombstone."""
    register(registry_url, fresh_name, ["null", ORDER])
    batch = [message(0, fresh_name, payload=None), order(1, fresh_name, None), order(2, fresh_name)]
    async with opened(kafka_url, settings(registry_url, {fresh_name: "avro"})) as kafka:
        assert (await publish(kafka, fresh_name, batch)).published == batch
    by_id = {headers(record)["ce_id"]: record for record in read(kafka_url, fresh_name)}
    tombstone, null, placed = [by_id[m.id] for m in batch]
    assert tombstone.value() is None
    assert headers(tombstone)["content-type"] == "application/json"
    assert null.value() is not None
    assert avro(registry_url, null) is None
    assert avro(registry_url, placed)["cents"] == PLACED["cents"]


async def test_a_payload_that_does_not_fit_is_parked_alone(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    """The reason names the field, and no value; everything else goes on."""
    register(registry_url, fresh_name, ORDER)
    secret = "4111 1111"
    batch = [
        order(0, fresh_name),
        order(1, fresh_name, {**PLACED, "cents": secret}),
        order(2, fresh_name, {"id": ORDER_ID}),
        order(3, fresh_name, content_type="text/plain"),
    ]
    async with opened(kafka_url, settings(registry_url, {fresh_name: "avro"})) as kafka:
        found = await failures(kafka, fresh_name, batch)
        assert (await publish(kafka, fresh_name, batch[:1])).published == batch[:1]
    assert [failure.message for failure in found] == batch[1:]
    for failure, named in zip(found, ["cents: a text", "cents: it is missing", "text/plain"], strict=True):
        assert isinstance(failure.error, ParkError)
        assert failure.error.at_once
        assert not failure.whole_topic
        assert named in failure.error.what
        assert f"version 1 of {fresh_name}-value" in failure.error.what
        assert secret not in str(failure.error)
    assert len(read(kafka_url, fresh_name)) == 1


async def test_a_new_version_is_taken_while_the_relay_runs(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    """After the time that is set; and at once where a payload does not fit what is known."""
    plain = settings(registry_url, {fresh_name: "avro"})
    first = register(registry_url, fresh_name, ORDER)
    async with (
        opened(kafka_url, {**plain, LATEST: 0.0}) as impatient,
        opened(kafka_url, plain) as patient,
        owning(impatient, Lane(f"{fresh_name}-1")) as always,
        owning(patient, Lane(f"{fresh_name}-2")) as minutely,
    ):
        await always.publish([order(0, fresh_name)])
        await minutely.publish([order(1, fresh_name)])
        second = register(registry_url, fresh_name, with_field("paid", "boolean", default=False))
        await always.publish([order(2, fresh_name)])
        await minutely.publish([order(3, fresh_name)])
        await minutely.publish([order(4, fresh_name, {**PLACED, "paid": True})])
    used = {headers(r)["ce_id"]: int.from_bytes((r.value() or b"")[1:5]) for r in read(kafka_url, fresh_name)}
    assert [used[order(n, fresh_name).id] for n in range(5)] == [first, first, second, first, second]


async def test_a_registry_that_is_down_parks_nothing(kafka_url: str, door: Gate, fresh_name: str) -> None:
    """The topics with an encoder wait, all of them together with one request; the others go on."""
    one, two, plain = f"{fresh_name}.1", f"{fresh_name}.2", f"{fresh_name}-plain"
    async with opened(kafka_url, settings(door.url, {f"{fresh_name}.*": "avro"})) as kafka:
        door.open, door.requests = False, 0
        batch = [order(0, one), order(1, two), order(2, plain), order(3, one)]
        found = await failures(kafka, fresh_name, batch)
        assert door.requests == 1
        assert (await publish(kafka, fresh_name, batch[2:3])).published == batch[2:3]
    assert {failure.message.position for failure in found} == {0, 1, 3}
    assert all(isinstance(failure.error, RetryError) and failure.whole_topic for failure in found)
    assert "schema registry" in str(found[0].error)


async def test_known_schemas_last_while_the_registry_is_down(
    kafka_url: str, registry_url: str, door: Gate, fresh_name: str
) -> None:
    """What does not fit a schema that is known waits then: nobody can say that there is no newer one."""
    register(registry_url, fresh_name, ORDER)
    given = settings(door.url, {fresh_name: "avro"}, **{LATEST: 0.0})
    async with opened(kafka_url, given) as kafka, owning(kafka, Lane(fresh_name)) as handoff:
        await handoff.publish([order(0, fresh_name)])
        door.open = False
        assert (await handoff.publish([order(1, fresh_name)])).published
        (failure,) = (await handoff.publish([order(2, fresh_name, {"id": 1})])).failed
        assert isinstance(failure.error, RetryError)
        assert failure.whole_topic
        door.open = True
        (failure,) = (await handoff.publish([order(2, fresh_name, {"id": 1})])).failed
        assert isinstance(failure.error, ParkError)


async def test_a_topic_without_a_schema_waits(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    batch = [order(0, fresh_name), order(1, fresh_name)]
    async with opened(kafka_url, settings(registry_url, {fresh_name: "avro"})) as kafka:
        found = await failures(kafka, fresh_name, batch)
        assert [failure.message for failure in found] == batch
        assert all(isinstance(failure.error, SchemaMissing) and failure.whole_topic for failure in found)
        assert f"{fresh_name}-value" in found[0].error.what
        with pytest.raises(SchemaMissing, match=f"{fresh_name}-value"):
            await kafka.rehearse(Lane(fresh_name))  # type: ignore[attr-defined]  # see app.checking.Rehearsing
        register(registry_url, fresh_name, ORDER)
        await kafka.rehearse(Lane(fresh_name))  # type: ignore[attr-defined]
        assert (await publish(kafka, fresh_name, batch)).published == batch


async def test_a_schema_of_another_kind_is_refused(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    register(registry_url, fresh_name, ORDER)
    async with opened(kafka_url, settings(registry_url, {fresh_name: "protobuf"})) as kafka:
        (failure,) = await failures(kafka, fresh_name, [order(0, fresh_name)])
        assert failure.whole_topic
        with pytest.raises(ConfigurationError, match="is AVRO, and the encoder of its topic is protobuf"):
            await kafka.rehearse(Lane(fresh_name))  # type: ignore[attr-defined]


async def test_wrong_credentials_are_told_at_the_start(kafka_url: str, door: Gate, fresh_name: str) -> None:
    """Without the password in any text."""
    door.user_info = "relay:correct-horse"
    login = "schema.registry.basic.auth.user.info"
    async with opened(kafka_url, settings(door.url, {fresh_name: "avro"}, **{login: door.user_info})):
        pass
    with pytest.raises(AccessDenied, match=r"basic\.auth\.user\.info") as caught:
        async with opened(kafka_url, settings(door.url, {fresh_name: "avro"}, **{login: "relay:battery-staple"})):
            pass
    assert "battery" not in str(caught.value)
    with pytest.raises(AccessDenied):
        async with opened(kafka_url, settings(door.url, {fresh_name: "avro"})):
            pass


async def test_what_is_no_registry_is_told_at_the_start(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    wrong = registry_url.removesuffix("/apis/ccompat/v7") + "/nowhere"
    with pytest.raises(ConfigurationError, match="/apis/ccompat/v7"):
        async with opened(kafka_url, settings(wrong, {fresh_name: "avro"})):
            pass


async def test_a_registry_that_is_down_at_the_start_holds_nothing_up(
    kafka_url: str, door: Gate, fresh_name: str
) -> None:
    """`fencepost check` tells it; a relay begins, and its other topics go on."""
    door.open = False
    async with opened(kafka_url, settings(door.url, {fresh_name: "avro"})) as kafka:
        with pytest.raises(RetryError):
            await kafka.rehearse(Lane(fresh_name))  # type: ignore[attr-defined]


async def test_schema_files_are_registered_where_creating_is_allowed(
    kafka_url: str, registry_url: str, fresh_name: str, tmp_path: Path
) -> None:
    topics = [f"{fresh_name}.avro", f"{fresh_name}.proto"]
    files = [tmp_path / "order.avsc", tmp_path / "order.desc"]
    files[0].write_text(json.dumps(ORDER))
    file = proto(id=FieldDescriptorProto.TYPE_STRING, cents=FieldDescriptorProto.TYPE_INT64)
    files[1].write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
    named = {topic: str(path) for topic, path in zip(topics, files, strict=True)}
    given = settings(registry_url, {topics[0]: "avro", "*.proto": "protobuf"}, schema_files=named)
    batch = [order(n, topic) for n, topic in enumerate(topics)]
    make_topic(kafka_url, f"fencepost.receipts.{fresh_name}", cleanup_policy="compact")
    async with opened(kafka_url, given, create=False) as kafka:
        with pytest.raises(SchemaMissing):
            await kafka.rehearse(Lane(fresh_name))  # type: ignore[attr-defined]
        found = await failures(kafka, fresh_name, batch)
        assert all(isinstance(failure.error, SchemaMissing) for failure in found)
    async with opened(kafka_url, given) as kafka:
        await kafka.rehearse(Lane(fresh_name))  # type: ignore[attr-defined]
        assert (await publish(kafka, fresh_name, batch)).published == batch
    assert avro(registry_url, read(kafka_url, topics[0])[0])["cents"] == PLACED["cents"]
    assert protobuf(registry_url, read(kafka_url, topics[1])[0], file).cents == PLACED["cents"]


async def test_several_types_on_one_topic(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    """Avro: a subject for each type. Protobuf: one subject, whose file has several."""
    kinds = [f"{fresh_name}.Order", f"{fresh_name}.Count"]
    with SchemaRegistryClient({"url": registry_url}) as client:
        client.register_schema(kinds[0], Schema(json.dumps(ORDER), "AVRO"))
        client.register_schema(kinds[1], Schema('"int"', "AVRO"))
    batch = [order(0, fresh_name, type=kinds[0]), order(1, fresh_name, 7, type=kinds[1])]
    given = settings(registry_url, {fresh_name: "avro"}, subject_strategy="record")
    async with opened(kafka_url, given) as kafka:
        assert (await publish(kafka, fresh_name, batch)).published == batch
    by_id = {headers(record)["ce_id"]: record for record in read(kafka_url, fresh_name)}
    assert avro(registry_url, by_id[batch[1].id]) == 7
    topic, file = f"{fresh_name}.proto", proto(id=FieldDescriptorProto.TYPE_STRING)
    register(registry_url, topic, serialized(file), "PROTOBUF")
    refund = order(2, topic, {"id": "r"}, type="shop.Refund")
    async with opened(kafka_url, settings(registry_url, {topic: "protobuf"})) as kafka:
        assert (await publish(kafka, fresh_name, [refund])).published == [refund]
    assert protobuf(registry_url, read(kafka_url, topic)[0], file, "Refund").id == "r"


async def test_types_of_other_subjects(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    """A schema that refers to another one."""
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    line = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "price", "type": money}]}
    whole = {"type": "record", "name": "Cart", "namespace": "shop", "fields": [{"name": "first", "type": "shop.Line"}]}
    with SchemaRegistryClient({"url": registry_url}) as client:
        client.register_schema(f"{fresh_name}.Line", Schema(json.dumps(line), "AVRO"))
        refers = [SchemaReference("shop.Line", f"{fresh_name}.Line", 1)]
        client.register_schema(f"{fresh_name}-value", Schema(json.dumps(whole), "AVRO", refers))
    cart = order(0, fresh_name, {"first": {"price": "12.5"}})
    async with opened(kafka_url, settings(registry_url, {fresh_name: "avro"})) as kafka:
        assert (await publish(kafka, fresh_name, [cart])).published == [cart]
    assert avro(registry_url, read(kafka_url, fresh_name)[0]) == {"first": {"price": Decimal("12.50")}}


async def test_a_protobuf_schema_that_comes_as_text_is_told(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    """Only some registries make a descriptor of text."""
    register(registry_url, fresh_name, 'syntax = "proto3"; message Order { string id = 1; }', "PROTOBUF")
    async with opened(kafka_url, settings(registry_url, {fresh_name: "protobuf"})) as kafka:
        (failure,) = await failures(kafka, fresh_name, [order(0, fresh_name)])
    assert failure.whole_topic
    assert "came as text" in str(failure.error)
    assert isinstance(failure.error, ConfigurationError)


async def test_a_large_batch_and_what_kafka_refuses_of_it(kafka_url: str, registry_url: str, fresh_name: str) -> None:
    """Case E1: a message that is too large once it is encoded is named as it came."""
    register(registry_url, fresh_name, ORDER)
    large = order(700, fresh_name, {**PLACED, "note": "x" * 1_100_000})
    batch = [*(order(n, fresh_name) for n in range(700)), large]
    async with (
        opened(kafka_url, settings(registry_url, {fresh_name: "avro"})) as kafka,
        owning(kafka, Lane(fresh_name)) as handoff,
    ):
        (failure,) = (await handoff.publish(batch)).failed
        assert failure.message == large
        assert (await handoff.publish(batch[:-1])).published == batch[:-1]
    assert len(read(kafka_url, fresh_name)) == 700


async def test_check_tells_what_is_wrong_with_schemas(
    kafka_url: str, registry_url: str, fresh_name: str, tmp_path: Path
) -> None:
    """`fencepost check`, which changes nothing."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    sections = {
        "relay": {"name": fresh_name},
        "database": {"url": url},
        "broker": {"url": kafka_url, **settings(registry_url, {fresh_name: "avro"})},
    }
    config = made(sections, origin="this test")
    await build.schema(config).apply()
    told = [finding.what for finding in (await check(config)).findings if finding.level == "error"]
    assert len(told) == 1
    assert f"{fresh_name}-value" in told[0]
    register(registry_url, fresh_name, ORDER)
    assert (await check(config)).ok
