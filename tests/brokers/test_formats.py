"""Every wire format on a real Kafka and a real NATS, read by plain clients."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import nats
import pytest

from fencepost.brokers.kafka import broker as kafka
from fencepost.brokers.nats import broker as jetstream
from fencepost.envelope import STRUCTURED, Format
from fencepost.message import Stored
from fencepost.ports import Broker, BrokerOptions, Lane, Term
from tests.brokers import kafka_kit

Raw = tuple[dict[str, str], bytes | None]


async def publish(broker: Broker, name: str, batch: Sequence[Stored]) -> None:
    try:
        await broker.open()
        handoff = await broker.take_over(Lane(name), Term(name, "owner", 1))
        outcome = await handoff.publish(batch)
        assert list(outcome.published) == list(batch)
        await handoff.close()
    finally:
        await broker.close()


def messages(topic: str) -> list[Stored]:
    one = kafka_kit.message(1, topic, payload=b'{"cents":12345678901234567890123}')._replace(headers={"tenant": "a"})
    return [one, kafka_kit.message(2, topic, payload=b"\x00\xff")._replace(content_type="image/png"),
            kafka_kit.message(3, topic, payload=None)]  # fmt: skip


async def on_kafka(url: str, topic: str, form: Format, names: dict[str, str]) -> list[Raw]:
    options = replace(kafka_kit.options(url), form=form, header_map=names)
    await publish(kafka(options), topic, messages(topic))
    records = kafka_kit.read(url, topic)
    assert {record.key() for record in records} == {b"key"}
    return [(kafka_kit.headers(record), record.value()) for record in records]


async def on_nats(url: str, topic: str, form: Format, names: dict[str, str]) -> list[Raw]:
    options = BrokerOptions(url=url, source="/orders", settings={"stream": topic}, form=form, header_map=names)
    await publish(jetstream(options), topic, messages(topic))
    client = await nats.connect(url)
    try:
        stream, found = client.jetstream(), []
        for number in range(1, 1 + len(messages(topic))):
            raw = await stream.get_msg(topic, seq=number + 1)  # the first message of the stream is the claim
            headers = {n: v for n, v in (raw.headers or {}).items() if not n.startswith("Nats-")}
            found.append((headers, None if headers.pop("fencepost-tombstone", "") else raw.data or b""))
        return found
    finally:
        await client.close()


async def check(found: list[Raw], form: Format, prefix: str) -> None:
    (own, json_body), (_, bytes_body), (gone, gone_body) = found
    assert own["tenant"] == "a"
    assert gone_body is None
    if form is Format.CLOUDEVENTS_STRUCTURED:
        assert own["content-type"] == STRUCTURED
        event = json.loads(json_body or b"", parse_int=str)
        assert (event["id"], event["subject"]) == (messages("t")[0].id, "key")
        assert (json_body or b"").endswith(b'"data":{"cents":12345678901234567890123}}')
        assert json.loads(bytes_body or b"")["data_base64"] == "AP8="
        assert gone[f"{prefix}id"] == messages("t")[2].id
        return
    assert (json_body, bytes_body) == (b'{"cents":12345678901234567890123}', b"\x00\xff")
    identity = f"{prefix}id" if form is Format.CLOUDEVENTS_BINARY else "id"
    assert (own[identity], gone[identity]) == (messages("t")[0].id, messages("t")[2].id)
    version = {Format.CLOUDEVENTS_BINARY: f"{prefix}entityversion", Format.PLAIN: "version"}
    assert (own.get(version[form]) == "2") if form in version else ("version" not in own)


@pytest.mark.parametrize("form", Format)
async def test_on_kafka(form: Format, kafka_url: str, fresh_name: str) -> None:
    await check(await on_kafka(kafka_url, fresh_name, form, {}), form, "ce_")


@pytest.mark.parametrize("form", Format)
async def test_on_nats(form: Format, nats_url: str, fresh_name: str) -> None:
    await check(await on_nats(nats_url, fresh_name, form, {}), form, "ce-")


async def test_other_names(kafka_url: str, nats_url: str, fresh_name: str) -> None:
    binary = Format.CLOUDEVENTS_BINARY
    for found in (
        await on_kafka(kafka_url, fresh_name, binary, {"ce_id": "event-id", "ce_time": ""}),
        await on_nats(nats_url, fresh_name, binary, {"ce-id": "event-id", "ce-time": ""}),
    ):
        for (headers, _), message in zip(found, messages("t"), strict=True):
            assert headers["event-id"] == message.id
            assert not [name for name in headers if name.endswith("time")]
