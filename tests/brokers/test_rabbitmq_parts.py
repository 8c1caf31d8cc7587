"""RabbitMQ's parts without a server: settings, addresses, frames, routes, the families of the library's errors."""

from __future__ import annotations

import inspect
import ssl
from typing import Any

import pamqp.frame
import pytest
from aiormq import Connection, exceptions, spec
from aiormq.abc import DeliveredMessage
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from fencepost.brokers.rabbitmq import refused, wire
from fencepost.brokers.rabbitmq.address import Address
from fencepost.brokers.rabbitmq.encode import Encoder, Route, route_of
from fencepost.brokers.rabbitmq.faults import _BY_CLASS, from_library, of_a_message, size_limit
from fencepost.brokers.rabbitmq.settings import Settings
from fencepost.brokers.rabbitmq.suspects import REFUSED_S, Suspects
from fencepost.envelope import Format, envelope
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    FixError,
    ParkError,
    RetryError,
    SchemaMissing,
    Unavailable,
)
from fencepost.plugins import name_of
from tests.brokers.rows import row

# -- settings and addresses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("exchnge", "shop", "did you mean 'exchange'"),
        ("exchange", "{key}", "only {topic} stand in braces"),
        ("exchange", "x" * 256, "at most 255 bytes"),
        ("routing_key", "{tpic}", "only {key}, {topic}, {type} stand in braces"),
        ("routing_key", True, "a text"),
        ("exchange_type", "topics", "one of direct, fanout, headers, topic"),
        ("queue_type", "mirrored", "one of classic, quorum, stream"),
        ("queues", ["a"], "a table, [broker.queues]"),
        ("queues.billing", [1], "a list of binding keys"),
        ("queues.", [], "a table, [broker.queues]"),
        ("queues." + "x" * 256, [], "the name of a queue"),
        ("header_prefix", "é", "cloudEvents_"),
        ("message_bytes_max", 0, "a whole number above 0"),
        ("heartbeat_s", "soon", "a whole number above 0"),
        ("tls_cert", "client.pem", "belong together"),
    ],
)
def test_mistakes_in_settings_are_told_by_name(setting: str, value: object, said: str) -> None:
    errors = refused("amqp://host", {setting: value})
    assert set(errors) == {setting}
    assert said in str(errors[setting])


def test_a_password_is_not_repeated() -> None:
    errors = refused("amqp://u:secret-word@host/a?x=1", {"password": ["secret-word"]})
    assert set(errors) == {"url", "password"}
    assert "secret-word" not in f"{list(map(str, errors.values()))}"
    assert "secret-word" not in repr(Address.of("amqp://u:secret-word@host"))
    assert "secret-word" not in repr(Settings.parse({"password": "secret-word"})[0])


def test_bindings_need_an_exchange() -> None:
    assert "queues.billing" in refused("amqp://host", {"queues.billing": ["order.*"]})
    given = {"exchange": "shop", "queues.billing": "order.*, payment.#", "queues.a.b": []}
    assert refused("amqp://host", given) == {}
    assert Settings.parse(given)[0].queues == {"billing": ("order.*", "payment.#"), "a.b": ()}


@pytest.mark.parametrize(
    "url",
    [
        "http://host",
        "amqp://",
        "amqp://host:0",
        "amqp://host:port",
        "amqp://host:99999",
        "amqp://one,,two",
        "amqp://host?heartbeat=1",
        "amqp://u:pass/word@host",
    ],
)
def test_addresses_that_cannot_be_used(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Address.of(url)


@pytest.mark.parametrize(
    ("url", "host", "port", "vhost", "user", "password"),
    [
        ("amqp://host", "host", 5672, "/", "guest", "guest"),
        ("rabbitmq://host/", "host", 5672, "/", "guest", "guest"),
        ("amqps://host/shop", "host", 5671, "shop", "guest", "guest"),
        ("amqp://u%40x:p%2Fw@[::1]:77/shop%2Fone", "::1", 77, "shop/one", "u@x", "p/w"),
    ],
)
def test_what_the_library_makes_of_an_address(
    url: str, host: str, port: int, vhost: str, user: str, password: str
) -> None:
    (given,) = Address.of(url).urls(Settings())
    assert name_of("broker", url) == "rabbitmq"
    assert (given.host, given.port, given.user, given.password) == (host, port, user, password)
    assert given.scheme == ("amqps" if url.startswith("amqps") else "amqp")


async def test_the_library_reads_vhost_and_heartbeat() -> None:
    (given,) = Address.of("amqp://host/shop%2Fone").urls(Settings(heartbeat_s=7))
    connection = Connection(given)
    assert (connection.vhost, connection.heartbeat_timeout, connection.connection_name) == ("shop/one", 7, "fencepost")


def test_several_servers_are_tried_in_order() -> None:
    urls = list(Address.of("amqp://u:p@one,two:77/v").urls(Settings()))
    assert [(url.host, url.port) for url in urls] == [("one", 5672), ("two", 77)]


# -- frames --------------------------------------------------------------------------------------------------------


def encoder(frame_bytes_max: int = 131_072, bytes_max: int = 1_000, **settings: Any) -> Encoder:
    made = envelope(Format.CLOUDEVENTS_BINARY, "/shop", "cloudEvents:")
    return Encoder(made, Settings(**settings), frame_bytes_max, lambda: bytes_max)


def test_the_librarys_decoder_reads_our_frames() -> None:
    message = row(1, key="Zoë", payload=b"x" * 500, headers={"trace": "é", "empty": ""})
    frames, decoded = encoder(frame_bytes_max=400, exchange="shop").one(message).frames, []
    while frames:
        size, channel, frame = pamqp.frame.unmarshal(frames)
        assert channel == 1
        decoded.append(frame)
        frames = frames[size:]
    publish, header, *bodies = decoded
    assert isinstance(publish, spec.Basic.Publish)
    assert (publish.exchange, publish.routing_key, publish.mandatory, publish.immediate) == (
        "shop",
        "orders",
        True,
        False,
    )
    assert isinstance(header, ContentHeader)
    properties = header.properties
    assert (header.body_size, properties.content_type, properties.delivery_mode, properties.message_id) == (
        500,
        "application/json",
        2,
        message.id,
    )
    headers = properties.headers or {}
    assert (headers["cloudEvents:subject"], headers["trace"], headers["empty"]) == ("Zoë", "é", "")
    values = [body.value for body in bodies if isinstance(body, ContentBody)]
    assert b"".join(values) == message.payload
    assert [len(value) + wire.FRAME_BYTES for value in values] == [400, 116]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"payload": bytes(1_001)}, "1,001 bytes"),
        ({"headers": {"CC": "elsewhere"}}, "would send it elsewhere"),
        ({"headers": {"n" * 256: "v"}}, "header name"),
        ({"headers": {"long": "v" * 131_072}}, "of headers"),
        ({"content_type": "x" * 256}, "content type"),
        ({"id": "x" * 256}, "its id"),
        ({"topic": "é" * 128}, "routing key"),
        ({"key": "\ud800"}, "UTF-8"),
    ],
)
def test_what_cannot_be_carried_is_parked_at_once(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ParkError, match=said) as caught:
        encoder().one(row(1, **fields))
    assert caught.value.at_once


def test_routes() -> None:
    message = row(1, topic="orders", key="{type}", type="placed")
    assert route_of(message, "", "{topic}") == Route("", "orders")
    assert route_of(message, "ex-{topic}", "a.{key}.{type}.b") == Route("ex-orders", "a.{type}.placed.b")
    assert route_of(message._replace(key=None), "e", "{key}") == Route("e", "")


# -- errors --------------------------------------------------------------------------------------------------------


def test_every_error_of_the_library_has_its_family() -> None:
    library = [kind for _, kind in inspect.getmembers(exceptions, inspect.isclass) if issubclass(kind, Exception)]
    ours = [kind for kind in library if kind.__module__ == exceptions.__name__]
    assert len(ours) > 20
    for kind in ours:
        assert any(base.__name__ in _BY_CLASS for base in kind.__mro__), kind
    for name, (family, _) in _BY_CLASS.items():
        assert issubclass(family, FixError | RetryError), name


def returned() -> exceptions.PublishError:
    frame = spec.Basic.Return(312, "NO_ROUTE", "shop", "orders")
    return exceptions.PublishError(DeliveredMessage(frame, ContentHeader(), b"", None), frame)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (exceptions.ProbableAuthenticationError("ACCESS_REFUSED"), AccessDenied),
        (exceptions.ConnectionNotAllowed("NOT_ALLOWED"), AccessDenied),
        (exceptions.ConnectionClosed(320, "CONNECTION_FORCED"), ConnectionLost),
        (exceptions.AMQPConnectionError("reset"), ConnectionLost),
        (exceptions.ConnectionResourceError("no channels"), Unavailable),
        (exceptions.ChannelNotFoundEntity("NOT_FOUND"), SchemaMissing),
        (exceptions.ChannelPreconditionFailed("inequivalent arg"), ConfigurationError),
        (exceptions.InvalidFrameError("Expected one of ['Connection.OpenOk'], got Close"), AccessDenied),
        (exceptions.InvalidFrameError("rubbish"), Unavailable),
        (returned(), Unavailable),
        (ConnectionRefusedError(111, "refused"), Unavailable),
        (ConnectionResetError(104, "reset"), ConnectionLost),
        (TimeoutError(), DeadlineExceeded),
        (ssl.SSLError(1, "certificate"), FixError),
        (OSError(113, "no route"), Unavailable),
        (ValueError("?"), Unavailable),
    ],
)
def test_families(error: Exception, family: type[FencepostError]) -> None:
    found = from_library(error, "trying")
    assert type(found) is family
    assert found.what.startswith("trying: ")


def test_what_a_closed_channel_says_of_the_only_message() -> None:
    parked = of_a_message(exceptions.ChannelPreconditionFailed("invalid message"), "publishing")
    assert isinstance(parked, ParkError)
    assert parked.at_once
    assert isinstance(of_a_message(exceptions.ChannelAccessRefused("no"), "publishing"), AccessDenied)
    assert size_limit(Exception("message size 9 is larger than configured max size 7")) == 7
    assert size_limit(Exception("message size 9 larger than max size 7")) == 7
    assert size_limit(Exception("something else")) is None


# -- suspects ------------------------------------------------------------------------------------------------------


class Stopped:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


def test_a_refused_place_is_tried_again_after_a_while_and_alone() -> None:
    clock: Any = Stopped()
    suspects, route = Suspects(clock, 100), Route("shop", "orders")
    assert not suspects.has(route)
    suspects.add(route)
    assert suspects.has(route)
    assert suspects.refusal(route) is None
    suspects.refused(route, AccessDenied("no"))
    assert isinstance(suspects.refusal(route), AccessDenied)
    clock.seconds += REFUSED_S
    assert suspects.refusal(route) is None
    assert suspects.has(route)
    suspects.clear(route)
    assert not suspects.has(route)


def test_the_lower_limit_counts() -> None:
    suspects = Suspects(Stopped(), 100)  # type: ignore[arg-type]
    for told in (None, 500, 70, 90):
        suspects.limit(told)
    assert suspects.message_bytes_max == 70
