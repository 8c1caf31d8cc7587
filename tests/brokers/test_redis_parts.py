"""The parts of the Redis broker that need no server: URL, settings, keys, encoding, the pieces of a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fencepost import plugins
from fencepost.brokers.redis.encode import FIELDS_MAX, Encoded, Encoder
from fencepost.brokers.redis.keys import Keys, fault
from fencepost.brokers.redis.parts import PART_BYTES, PART_WORDS, PARTS_MAX, parts
from fencepost.brokers.redis.settings import Settings
from fencepost.envelope import Format, envelope
from fencepost.errors import ConfigurationError, FixError, ParkError
from fencepost.ports import BrokerOptions, Lane
from tests.brokers.rows import row

MUCH = 10_000_000


def encoder(form: Format = Format.CLOUDEVENTS_BINARY, header_map: Any = None, **settings: Any) -> Encoder:
    return Encoder(envelope(form, "/shop", "ce_", header_map), Settings(**settings))


# -- URL and settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["redis", "rediss", "valkey", "redis+cluster"])
def test_the_plug_in_is_found_by_its_name(scheme: str) -> None:
    url = f"{scheme}://host:6379/0"
    module = plugins.load("broker", plugins.name_of("broker", url))
    made = module.broker(BrokerOptions(url=url, source="/shop", settings={"prefix": "{shop}:"}))
    assert type(made).__name__ == "RedisBroker"


def test_mistakes_are_told_by_name_and_without_secrets() -> None:
    url = "redis://user:hunter2@host/orders"
    found = plugins.refused("broker", url, {"prefx": "a:", "maxlen": 0, "wait_replicas": True, "batch_max": 500})
    assert sorted(found) == ["maxlen", "prefx", "url", "wait_replicas"]
    assert "did you mean 'prefix'?" in found["prefx"].remedy
    assert "from 1 to" in found["maxlen"].remedy
    assert "hunter2" not in str(found["url"])
    assert plugins.refused("broker", "redis://host", {"prefix": "a:"}) == {}


def test_settings_have_defaults_and_are_read() -> None:
    assert Settings.read({}) == Settings()
    given = {"prefix": 7, "payload_field": "body", "maxlen": 5, "wait_replicas": 1, "batch_max": 9}
    assert Settings.read(given) == Settings(prefix="7", payload_field="body", maxlen=5, wait_replicas=1, batch_max=9)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prefix", "line\nfeed"),
        ("prefix", None),
        ("payload_field", ""),
        ("batch_max", 100_000),
        ("message_bytes_max", 10**9),
        ("maxlen", "many"),
    ],
)
def test_values_that_cannot_be_meant(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        Settings.read({name: value})


def test_a_url_that_says_cluster_needs_a_hash_tag_before_anything_is_asked() -> None:
    module = plugins.load("broker", "redis")
    with pytest.raises(ConfigurationError, match="hash tag"):
        module.broker(BrokerOptions(url="redis+cluster://host:1", source="/shop"))


# -- keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "shop:"])
def test_the_prefix_that_is_proposed_works(prefix: str) -> None:
    """It is this broker's, not the one of an outbox in Redis."""
    options = BrokerOptions(url="redis+cluster://host", source="/shop", settings={"prefix": prefix})
    with pytest.raises(ConfigurationError) as told:
        plugins.load("broker", "redis").broker(options)
    proposed = told.value.remedy.partition('prefix = "')[2].rstrip('"')
    assert proposed == f"{{shop}}:{prefix}"
    plugins.load("broker", "redis").broker(replace(options, settings={"prefix": proposed}))


@pytest.mark.parametrize("url", ["redis+cluster://", "redis+cluster:///0", "redis+cluster://:6379"])
def test_a_cluster_without_a_host_is_not_the_one_on_this_machine(url: str) -> None:
    with pytest.raises(ConfigurationError, match="names no node of the cluster"):
        plugins.load("broker", "redis").broker(BrokerOptions(url=url, source="/shop"))


def test_keys_share_the_prefix_and_are_told_apart() -> None:
    keys, lanes = Keys("{a}:"), [Lane("orders"), Lane("orders", 1), Lane("orders", 11)]
    found = [name for lane in lanes for name in (keys.lane(lane), keys.receipts(lane))]
    assert len(set(found)) == 6
    assert all(name.startswith("{a}:fencepost:") for name in found)
    assert keys.stream("orders") == "{a}:orders"


@pytest.mark.parametrize("topic", ["", "fencepost:receipts:orders.0", "fencepost_parked", "a\ud800"])
def test_topics_that_cannot_be_streams_are_parked_at_once(topic: str) -> None:
    """E4"""
    assert fault(topic)
    with pytest.raises(ParkError) as caught:
        encoder().one(row(1, topic=topic), MUCH)
    assert caught.value.at_once


def test_other_topics_are_streams() -> None:
    assert [topic for topic in ("a.b", "a_b", "a/b", "..", "fencepost", "é") if fault(topic)] == []


# -- encoding ------------------------------------------------------------------------------------------------------


def test_a_message_is_an_entry_of_headers_and_the_payload() -> None:
    message = row(1, payload=b"\x00\xff", headers={"tenant": "ä"})
    encoded = encoder(prefix="shop:").one(message, MUCH)
    words = encoded.words
    assert (encoded.stream, encoded.size) == ("shop:orders", sum(map(len, words)))
    fields = dict(zip(words[::2], words[1::2], strict=True))
    assert fields[b"ce_id"] == message.id.encode()
    assert (fields[b"ce_subject"], fields[b"ce_entityversion"], fields[b"tenant"]) == (b"k", b"1", "ä".encode())
    assert words[-2:] == [b"payload", b"\x00\xff"]


def test_a_tombstone_has_no_payload_and_an_empty_payload_is_one() -> None:
    """E7"""
    assert b"payload" not in encoder().one(row(1, payload=None), MUCH).words
    assert encoder().one(row(1, payload=b""), MUCH).words[-2:] == [b"payload", b""]
    assert encoder(Format.CLOUDEVENTS_STRUCTURED).one(row(1, payload=None), MUCH).words[0] == b"ce_specversion"


def test_a_header_with_the_payloads_name_is_never_taken_for_it() -> None:
    message = row(1, headers={"payload": "x"})
    with pytest.raises(ParkError, match="the name of the payload's field") as caught:
        encoder().one(message, MUCH)
    assert caught.value.at_once
    assert encoder(payload_field="body").one(message, MUCH).words[-2:] == [b"body", b"payload 1"]
    assert b"payload" in encoder(header_map={"payload": "sender-payload"}).one(message, MUCH).words


@pytest.mark.parametrize("names", [{"payload_field": "ce_id"}, {"header_map": {"ce_id": "payload"}}])
def test_an_attribute_with_the_payloads_name_is_refused_at_once(names: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="is the payload's field and a header too"):
        encoder(**names)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"headers": {"a": "\ud800"}}, "UTF-8"),
        ({"headers": {f"h{n}": "" for n in range(FIELDS_MAX)}}, "fields, and 1 to 500"),
        ({"payload": b"12345678901"}, "10 are taken"),
    ],
)
def test_what_cannot_go_is_refused_alone(fields: dict[str, Any], why: str) -> None:
    """E1, E6"""
    good, bad = row(1), row(2, **fields)
    encoded, failed = encoder().batch([good, bad], 10 if "payload" in fields else MUCH)
    assert [f.message for f in failed if f.message is bad] == [bad]
    assert why in str(failed[-1].error)
    assert isinstance(failed[-1].error, ParkError)
    assert failed[-1].error.at_once
    assert len(encoded) == (0 if "payload" in fields else 1)


def test_sizes_are_counted_in_bytes() -> None:
    """E1"""
    plain = encoder(Format.DEBEZIUM)
    size = plain.one(row(1), MUCH).size
    wide = row(1, headers={"a": "é" * 100})
    assert plain.one(wide, MUCH).size == size + 1 + 200
    plain.one(wide, size + 201)
    with pytest.raises(ParkError):
        plain.one(wide, size + 200)


def test_an_entry_without_any_field_is_none() -> None:
    nothing = encoder(Format.PLAIN, {"id": "", "version": ""})
    assert nothing.one(row(1), MUCH).words == [b"payload", b"payload 1"]
    with pytest.raises(ParkError, match="0 fields"):
        nothing.one(row(1, payload=None), MUCH)


# -- pieces --------------------------------------------------------------------------------------------------------


def of(sizes: list[int], words: int = 2) -> list[Encoded]:
    return [Encoded("s", [b""] * words, size) for size in sizes]


def test_an_ordinary_batch_is_one_part() -> None:
    assert parts(of([300] * 2000, 20), 500_000_000) == [slice(0, 2000)]


@pytest.mark.parametrize(
    ("sizes", "words", "bytes_max"),
    [
        ([1_000_000] * 2000, 20, 500_000_000),
        ([PART_BYTES, 1] * 16, 20, 500_000_000),
        ([300] * 2000, 1000, 500_000_000),
        ([400_000] * 16, 20, 500_000),
        ([16_000_000] * 100, 20, 500_000_000),
    ],
)
def test_a_large_batch_is_few_parts_that_the_server_takes(sizes: list[int], words: int, bytes_max: int) -> None:
    """The receipts of two batches are among those that are kept."""
    encoded = of(sizes, words)
    found = parts(encoded, bytes_max)
    assert 1 < len(found) <= PARTS_MAX
    assert [one for part in found for one in encoded[part]] == encoded
    for part in found:
        assert sum(one.size for one in encoded[part]) <= bytes_max
        assert sum(len(one.words) for one in encoded[part]) <= PART_WORDS


def test_a_batch_of_too_many_parts_is_told() -> None:
    with pytest.raises(FixError, match=r"too large.*lower \[relay\] batch"):
        parts(of([400_000] * 40), 500_000)
