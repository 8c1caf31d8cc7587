"""MQTT's parts without a server: settings, addresses, topics, properties, the families of the reasons and errors."""

from __future__ import annotations

import inspect
import ssl
from typing import Any

import paho.mqtt
import paho.mqtt.client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt import MQTTException
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from fencepost import errors, plugins
from fencepost.brokers.mqtt import broker, refused
from fencepost.brokers.mqtt.address import Address
from fencepost.brokers.mqtt.encode import Encoder
from fencepost.brokers.mqtt.faults import (
    _BY_CLASS,
    _BY_CODE,
    NO_SUBSCRIBERS,
    PROTOCOL_ERROR,
    SUCCESS,
    ended,
    from_code,
    from_library,
    of_a_message,
)
from fencepost.brokers.mqtt.settings import PACKET_BYTES_MAX, Settings
from fencepost.envelope import Format, envelope
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    Fenced,
    FixError,
    ParkError,
    RetryError,
    Unavailable,
)
from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from tests.brokers.rows import row

FAMILIES = (errors.FixError, errors.RetryError, errors.ParkError, errors.StopError)

# -- settings and addresses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("topc", "shop", "did you mean 'topic'"),
        ("topic", "shop", "a text with {topic}"),
        ("topic", "{topic}/{id}", "a text with {topic}"),
        ("topic", "shop/+/{topic}", "stand for other topics"),
        ("topic", "$SYS/{topic}", "begins with $"),
        ("topic", "a\n{topic}", "U+000A"),
        ("separator", "/", 'one of "."'),
        ("separator", "..", 'one of "."'),
        ("retain", "yes", "true or false"),
        ("allow_no_subscribers", 1, "true or false"),
        ("client_id", "shop", "{lane} in it"),
        ("client_id", "{lane}{lane}", "{lane} in it"),
        ("client_id", "\x00{lane}", "U+0000"),
        ("packet_bytes_max", 0, "a whole number above 0"),
        ("packet_bytes_max", PACKET_BYTES_MAX + 1, "MQTT's own limit"),
        ("publish_s", "soon", "a number of seconds"),
        ("keepalive_s", 70_000, "at most 65535"),
        ("tls_cert", "client.pem", "belong together"),
    ],
)
def test_mistakes_in_settings_are_told_by_name(setting: str, value: object, said: str) -> None:
    found = refused("mqtt://host", {setting: value})
    assert set(found) == {setting}
    assert said in str(found[setting])
    with pytest.raises(ConfigurationError):
        Settings.read({setting: value})


def test_a_password_needs_a_user() -> None:
    for url, settings in (("mqtt://h", {"password": "p"}), ("mqtt://:p@h", {})):
        with pytest.raises(ConfigurationError, match="without a user"):
            broker(BrokerOptions(url=url, source="/shop", settings=settings))
    broker(BrokerOptions(url="mqtt://:p@h", source="/shop", settings={"user": "u"}))


def test_a_password_is_not_repeated() -> None:
    found = refused("mqtt://u:secret-word@host/a?x=1", {"password": "secret-word\n"})
    assert set(found) == {"url", "password"}
    assert "secret-word" not in f"{list(map(str, found.values()))}"
    assert "secret-word" not in repr(Address.of("mqtt://u:secret-word@host"))
    assert "secret-word" not in repr(Settings.parse({"password": "secret-word"})[0])


@pytest.mark.parametrize(
    "url",
    [
        "http://host",
        "mqtt://",
        "mqtt://host:0",
        "mqtt://host:port",
        "mqtt://host:99999",
        "mqtt://one,,two",
        "mqtt://host?keepalive=1",
        "mqtt://host/topic",
        "mqtt://u:pass/word@host",
    ],
)
def test_addresses_that_cannot_be_used(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Address.of(url)


def test_addresses() -> None:
    address = Address.of("mqtts://u%40x:p%2Fw@one:77, [::1],two/")
    assert address.servers == (("one", 77), ("::1", 8883), ("two", 8883))
    assert (address.user, address.password, address.tls) == ("u@x", "p/w", True)
    assert str(address) == "one:77, [::1]:8883, two:8883"
    assert Address.of("mqtt://host").servers == (("host", 1883),)
    assert {plugins.name_of("broker", url) for url in ("mqtt://host", "mqtts://host")} == {"mqtt"}


# -- topics --------------------------------------------------------------------------------------------------------


def encoder(bytes_max: int = PACKET_BYTES_MAX, form: Format = Format.CLOUDEVENTS_BINARY, **settings: Any) -> Encoder:
    return Encoder(envelope(form, "/shop", ""), Settings(**settings), bytes_max)


def topic_of(name: str, key: str | None = "k", /, **settings: Any) -> str:
    return encoder(**settings).one(row(1, name, key)).topic


def test_topics() -> None:
    assert topic_of("shop.orders/eu") == "shop.orders/eu"
    assert topic_of("shop.orders", separator=".") == "shop/orders"
    assert topic_of("orders", topic="shop/{topic}/{type}") == "shop/orders/order.created"
    keyed = "{topic}/{key}"
    assert topic_of("orders", "a/b+#%{x}", topic=keyed) == "orders/a%2Fb%2B%23%25{x}"
    assert topic_of("orders", None, topic=keyed) == "orders/"
    assert topic_of("orders", "Zoë $1", topic=keyed) == "orders/Zoë $1"


@pytest.mark.parametrize(
    ("topic", "settings", "said"),
    [
        ("a+b", {}, "stand for other topics"),
        ("a/#", {}, "stand for other topics"),
        ("$SYS/x", {}, "begins with \\$"),
        ("", {}, "is empty"),
        ("a\x00b", {}, "U\\+0000"),
        ("a\ud800b", {}, "U\\+D800"),
        ("a/b", {"separator": "."}, "another topic would have the same levels"),
        ("x" * 65_536, {}, "65,536 bytes"),
    ],
)
def test_topics_that_cannot_be(topic: str, settings: dict[str, Any], said: str) -> None:
    """E4"""
    with pytest.raises(ParkError, match=said) as caught:
        topic_of(topic, **settings)
    assert caught.value.at_once


TOPICS = st.text(alphabet="ab._/-", min_size=1, max_size=6)


@given(TOPICS, TOPICS, st.sampled_from(["", ".", "-", "_"]))
def test_two_topics_never_fall_together(one: str, two: str, separator: str) -> None:
    """E4"""
    found = []
    for topic in (one, two):
        try:
            found.append(topic_of(topic, separator=separator))
        except ParkError:
            return
    assert (found[0] == found[1]) is (one == two)


# -- properties ----------------------------------------------------------------------------------------------------


def properties_of(message: Stored, **settings: Any) -> tuple[str | None, list[tuple[str, str]]]:
    """What the library reads of ours: the content type and the user properties."""
    encoded = encoder(**settings).one(message).properties
    properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    _, used = properties.unpack(encoded)
    assert used == len(encoded)
    return getattr(properties, "ContentType", None), getattr(properties, "UserProperty", [])


def test_attributes_are_user_properties_without_a_prefix() -> None:
    message = row(1, key="Zoë", version=3, headers={"trace": "é", "empty": ""}, in_doubt=True)
    content_type, properties = properties_of(message)
    assert content_type == "application/json"
    assert dict(properties) == {
        "specversion": "1.0",
        "source": "/shop",
        "type": "order.created",
        "id": message.id,
        "time": message.occurred_at.isoformat(),
        "subject": "Zoë",
        "entityversion": "3",
        "possiblerepeat": "true",
        "trace": "é",
        "empty": "",
    }


def test_a_header_with_the_name_of_an_attribute_gives_way() -> None:
    message = row(1, headers={"id": "mine", "content-type": "mine", "other": "mine"})
    content_type, properties = properties_of(message)
    assert content_type == "application/json"
    assert [value for name, value in properties if name == "id"] == [message.id]
    assert ("other", "mine") in properties


def test_other_formats() -> None:
    message = row(1, payload=b'{"cents": 1}')
    content_type, properties = properties_of(message, form=Format.CLOUDEVENTS_STRUCTURED)
    assert content_type == "application/cloudevents+json; charset=UTF-8"
    assert properties == []
    assert b'"data":{"cents": 1}' in encoder(form=Format.CLOUDEVENTS_STRUCTURED).one(message).body
    assert properties_of(message, form=Format.PLAIN) == (None, [("id", message.id), ("version", "1")])


def test_a_tombstone_says_that_it_is_one() -> None:
    """E7"""
    tombstone, empty = (encoder().one(row(1, payload=payload)) for payload in (None, b""))
    assert tombstone.body == empty.body == b""
    assert ("fencepost-tombstone", "true") in properties_of(row(1, payload=None))[1]
    assert "fencepost-tombstone" not in dict(properties_of(row(1, payload=b""))[1])


@pytest.mark.parametrize(
    "character", ["\x00", "\n", "\x7f", "\x85", "\ufeff", "\ufdd0", "\uffff", "\U0010fffe", "\ud800"]
)
@pytest.mark.parametrize("place", ["key", "type", "content_type", "headers"])
def test_texts_that_mqtt_cannot_carry_park_their_message(character: str, place: str) -> None:
    text = f"a{character}b"
    fields: dict[str, Any] = {place: {"own": text} if place == "headers" else text}
    with pytest.raises(ParkError, match=f"U\\+{ord(character):04X}") as caught:
        encoder().one(row(1, **fields))
    assert caught.value.at_once


@pytest.mark.parametrize(("size", "fits"), [(65_535, True), (65_536, False)])
def test_the_length_of_a_text_counts_in_bytes(size: int, fits: bool) -> None:
    message = row(1, headers={"own": "é" * (size // 2) + "x" * (size % 2)})
    if fits:
        assert len(dict(properties_of(message)[1])["own"].encode()) == size
    else:
        with pytest.raises(ParkError, match="65,536 bytes"):
            encoder().one(message)


@pytest.mark.parametrize("payload", [b"", b"x" * 100, b"x" * 20_000, b"x" * 2_100_000])
def test_the_size_of_a_packet_is_known_to_the_byte(payload: bytes) -> None:
    """What the library makes of it is as long as we say, and one byte less is too little room."""
    message = row(1, payload=payload)
    encoded = encoder().one(message)
    client = paho.mqtt.client.Client(CallbackAPIVersion.VERSION2, protocol=paho.mqtt.client.MQTTv5)
    sent: list[bytes] = []
    client._sock = object()  # type: ignore[assignment]
    client._packet_queue = lambda _, packet, *__: sent.append(bytes(packet))  # type: ignore[assignment,method-assign]
    properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.unpack(encoded.properties)
    client._send_publish(1, encoded.topic.encode(), encoded.body, 1, properties=properties)
    client._sock = None
    assert encoded.size == len(sent[0])
    assert encoder(bytes_max=encoded.size).one(message) == encoded
    with pytest.raises(ParkError, match=f"{encoded.size:,} bytes") as caught:
        encoder(bytes_max=encoded.size - 1).one(message)
    assert caught.value.at_once


# -- reasons and errors --------------------------------------------------------------------------------------------


def reasons(*kinds: int) -> list[int]:
    """The numbers that the library knows for these packets."""
    return [
        code for code, names in ReasonCode.names.items() if any(kind in k for k in names.values() for kind in kinds)
    ]


def test_every_reason_of_the_protocol_has_a_family() -> None:
    known = reasons(PacketTypes.CONNACK, PacketTypes.PUBACK, PacketTypes.DISCONNECT)
    bad = [code for code in known if code >= 0x80]
    assert len(bad) > 30
    for code in bad:
        assert code in _BY_CODE, hex(code)
        error = from_code(code, "Its name", "publishing", "its words")
        assert isinstance(error, FAMILIES)
        assert f"Its name (0x{code:02X}), 'its words'" in str(error)
        assert code in _BY_CODE
    assert {code for code in reasons(PacketTypes.PUBACK) if code < 0x80} == {SUCCESS, NO_SUBSCRIBERS}


@pytest.mark.parametrize(
    ("code", "family"),
    [
        (0x80, RetryError),
        (0x83, RetryError),
        (0x87, AccessDenied),
        (0x90, ParkError),
        (0x97, RetryError),
        (0x99, ParkError),
        (0x95, ParkError),
        (0x8E, Fenced),
        (0x86, AccessDenied),
        (0x84, FixError),
        (0xF0, Unavailable),
    ],
)
def test_what_the_reasons_mean(code: int, family: type[Exception]) -> None:
    assert isinstance(from_code(code, "x", "publishing"), family)


def test_a_connection_never_ends_with_a_parked_message() -> None:
    for code in reasons(PacketTypes.DISCONNECT):
        assert not isinstance(ended(code, "x", "the connection", by_server=True), ParkError), hex(code)
    assert isinstance(ended(PROTOCOL_ERROR, "x", "the connection", by_server=False), ConnectionLost)
    assert isinstance(of_a_message(PROTOCOL_ERROR, "x", "publishing"), ParkError)
    assert isinstance(of_a_message(0x87, "x", "publishing"), AccessDenied)


def test_every_error_of_the_library_has_a_family() -> None:
    found = [
        error
        for module in (paho.mqtt, paho.mqtt.client, inspect.getmodule(MQTTException))
        for _, error in inspect.getmembers(module, inspect.isclass)
        if issubclass(error, Exception)
    ]
    assert len(found) > 2
    for error in found:
        assert any(base.__name__ in _BY_CLASS for base in error.__mro__), error
        assert isinstance(from_library(error("why"), "connecting"), FAMILIES)


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (ConnectionRefusedError("refused"), Unavailable),
        (ConnectionResetError("reset"), ConnectionLost),
        (TimeoutError("late"), DeadlineExceeded),
        (OSError("no route"), Unavailable),
        (ssl.SSLError(1, "certificate"), FixError),
        (UnicodeError("no such host"), ConfigurationError),
    ],
)
def test_errors_of_the_socket(error: Exception, family: type[Exception]) -> None:
    assert isinstance(from_library(error, "connecting"), family)
