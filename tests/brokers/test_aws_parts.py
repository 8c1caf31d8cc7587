"""SQS and SNS without a server: addresses, settings, names, what goes on the wire, and every error in its family."""

from __future__ import annotations

import json
from base64 import b64decode
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from botocore import exceptions as boto
from botocore.session import get_session

from fencepost import plugins
from fencepost.aws.address import Sns, Sqs, server_of
from fencepost.aws.publishing.encode import ATTRIBUTES_MAX, Encoder
from fencepost.aws.publishing.faults import About, fault, fault_of_entry
from fencepost.aws.publishing.names import Names
from fencepost.brokers.sns.settings import Settings as SnsSettings
from fencepost.brokers.sqs.settings import Settings as SqsSettings
from fencepost.envelope import Format
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    FencepostError,
    FixError,
    ParkError,
    RetryError,
    SchemaMissing,
    Unavailable,
)
from fencepost.ports import BrokerOptions
from tests.brokers.rows import row
from tests.unit.test_aws import every_class

SERVER = Sqs("eu-west-1")


# -- addresses and settings ----------------------------------------------------------------------------------------


def test_an_address() -> None:
    assert server_of(Sqs, "sqs://eu-west-1/?endpoint=http://127.0.0.1:9324") == Sqs(
        "eu-west-1", "http://127.0.0.1:9324"
    )
    assert server_of(Sns, "sns://us-east-1") == Sns("us-east-1")
    assert server_of(Sns, "sns://us-east-1").place == "SNS us-east-1"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqs://", "write sqs://REGION"),
        ("sqs://me:hush@eu-west-1/", "leave them out"),
        ("sqs://eu-west-1/orders", "has no path"),
        ("sqs://eu-west-1/?endpiont=http://a", "did you mean 'endpoint'"),
        ("sqs://eu-west-1/?endpoint=127.0.0.1:9324", "endpoint is not the address"),
        ("sqs://EU WEST/", "names no region"),
    ],
)
def test_addresses_that_cannot_be(url: str, said: str) -> None:
    (error,) = plugins.load("broker", "sqs").refused(url, {}).values()
    assert said in str(error)
    assert "hush" not in str(error)
    with pytest.raises(ConfigurationError):
        plugins.load("broker", "sqs").broker(BrokerOptions(url=url, source="/s"))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("queu", "a", "did you mean 'queue'"),
        ("queue", "a.b", "A-Z a-z 0-9 _ -"),
        ("queue", "{topci}", "{topic} may stand"),
        ("queue", "", "{topic} may stand"),
        ("queue", ".fifo", "{topic} may stand"),
        ("fifo", "yes", "true or false"),
        ("dot", "", "1 to 8 characters"),
        ("dot", ".", "1 to 8 characters"),
        ("account", "12", "12 digits"),
        ("message_bytes_max", 0, "from 1 to 1,048,576"),
        ("message_bytes_max", 1_048_577, "from 1 to 1,048,576"),
        ("connections", True, "above 0"),
        ("publish_s", 0, "seconds above 0"),
    ],
)
def test_settings_that_cannot_be(name: str, value: object, said: str) -> None:
    found = plugins.load("broker", "sqs").refused("sqs://eu-west-1/", {"connections": 4} | {name: value})
    assert [*found] == [name]
    assert said in str(found[name])


def test_a_name_of_fifo_and_the_setting_belong_together() -> None:
    _, errors = SqsSettings.parse({"queue": "orders.fifo", "fifo": False})
    assert "set fifo = true" in str(errors["queue"])
    assert Names(SqsSettings.read({"queue": "orders.fifo"})).of("any") == "orders.fifo"
    assert SqsSettings.read({"account": 12345678901}).account == "012345678901"


# -- names ---------------------------------------------------------------------------------------------------------


def test_the_names_of_topics() -> None:
    assert Names(SqsSettings.read({})).of("orders.placed") == "orders--placed.fifo"
    assert Names(SqsSettings.read({"fifo": False, "queue": "shop-{topic}"})).of("a_b") == "shop-a_b"
    assert Names(SnsSettings.read({"topic": "{topic}-x", "dot": "_"})).of("a.b") == "a_b-x.fifo"


@pytest.mark.parametrize("dot", ["--", "-", "_", "_-", "x", "-x-"])
def test_two_topics_never_have_one_name(dot: str) -> None:
    """E4: each topic has a name of its own or is refused, whatever stands for a dot."""
    names, found = Names(SqsSettings.read({"dot": dot})), dict[str, str]()
    for length in range(1, 7):
        for letters in product(".-_x", repeat=length):
            topic = "".join(letters)
            with suppress(ParkError):
                assert found.setdefault(names.of(topic), topic) == topic
    assert len(found) > 1000


def test_topics_without_a_name() -> None:
    names = Names(SqsSettings.read({}))
    for topic in ("a/b", "a b", "\u00e9", "", "x" * 76, "a--b"):
        with pytest.raises(ParkError) as caught:
            names.of(topic)
        assert caught.value.at_once
    assert names.of("x" * 75) == "x" * 75 + ".fifo"
    assert Names(SnsSettings.read({})).of("x" * 251) == "x" * 251 + ".fifo"


# -- on the wire ---------------------------------------------------------------------------------------------------


def encoder(form: Format = Format.CLOUDEVENTS_STRUCTURED, **settings: object) -> Encoder:
    options = BrokerOptions(url="sqs://x", source="/shop", form=form)
    return Encoder(options.envelope("ce-"), SqsSettings.read(settings))


def test_headers_that_are_too_many_or_odd_go_together() -> None:
    fine = {f"h{n}": "v" for n in range(9)}
    assert encoder().entry(row(1, headers=fine)).attributes == {
        "content-type": "application/cloudevents+json; charset=UTF-8",
        **fine,
    }
    more = {f"h{n}": "v" for n in range(30)}
    entry = encoder().entry(row(1, headers=more))
    assert len(entry.attributes) == ATTRIBUTES_MAX
    assert json.loads(entry.attributes["fencepost-headers"]) == {f"h{n}": "v" for n in range(8, 30)}
    odd = {"empty": "", "AWS.x": "v", "amazon.x": "v", "a..b": "v", "bell": "\x07", "fencepost-tombstone": "true"}
    entry = encoder().entry(row(1, headers={**odd, "good": "v", "n" * 257: "v"}))
    assert set(entry.attributes) == {"content-type", "good", "fencepost-headers"}
    assert json.loads(entry.attributes["fencepost-headers"]) == {**odd, "n" * 257: "v"}
    assert entry.attributes["fencepost-headers"].isascii()


@pytest.mark.parametrize("payload", [b"\xff\x00", b"bell \x07", "\ufffe".encode(), b"\x00"])
def test_a_body_that_is_no_text_survives(payload: bytes) -> None:
    entry = encoder(Format.CLOUDEVENTS_BINARY).entry(row(1, payload=payload))
    assert (b64decode(entry.body), entry.attributes["fencepost-body"]) == (payload, "base64")
    assert len(entry.attributes) == 9


def test_a_tombstone_and_an_empty_body() -> None:
    for form in Format:
        gone = encoder(form).entry(row(1, payload=None, in_doubt=True))
        assert (gone.body, gone.attributes["fencepost-tombstone"]) == ("null", "true")
        assert len(gone.attributes) <= ATTRIBUTES_MAX
    empty = encoder(Format.PLAIN).entry(row(1, payload=b""))
    assert (empty.body, empty.attributes["fencepost-body"]) == ("-", "empty")


def test_the_size_is_counted_in_bytes() -> None:
    """E1: body, names, types and values."""
    given = row(1, payload=b'"\xc3\xa9"', headers={"h": "\u00e9"})
    size = encoder(Format.PLAIN).entry(given).size
    parts = ["id", given.id, "String", "version", "1", "String", "h", "\u00e9", "String", '"\u00e9"']
    assert size == sum(len(part.encode()) for part in parts)
    assert encoder(Format.PLAIN, message_bytes_max=size).entry(given).size == size
    with pytest.raises(ParkError) as caught:
        encoder(Format.PLAIN, message_bytes_max=size - 1).entry(given)
    assert caught.value.at_once


def test_groups_and_ids_are_those_of_the_message_where_they_can_be() -> None:
    plain = row(1, key="order-1")
    entry = encoder().entry(plain)
    assert (entry.group, entry.id) == ("order-1", plain.id)
    assert encoder().entry(row(1, key=None, id="x")).group == "x"
    odd = [encoder().entry(row(1, key=key)).group for key in ("\u00e9", "a b", "k" * 129, "\ud800")]
    assert len(set(odd)) == 4
    assert all(len(group) == 64 and group.isascii() for group in odd)


def test_the_topic_is_told_where_it_decides_nothing() -> None:
    assert encoder(queue="all").entry(row(1, topic="a.b")).attributes["fencepost-topic"] == "a.b"
    assert "fencepost-topic" not in encoder().entry(row(1, topic="a.b")).attributes
    with pytest.raises(ParkError):
        encoder(queue="all").entry(row(1, topic="\x00"))


# -- errors --------------------------------------------------------------------------------------------------------


def refusal(code: str, text: str = "said", status: int = 400) -> boto.ClientError:
    return boto.ClientError(
        {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Any"
    )


def codes(service: str, *operations: str) -> list[tuple[str, int]]:
    """Every error of these operations that the library knows, as it comes from the service, with its status."""
    model = get_session().get_service_model(service)
    shapes = {shape.name: shape for operation in operations for shape in model.operation_model(operation).error_shapes}
    return [(told.get("code", name), told.get("httpStatusCode", 400)) for name, told in _told(shapes)]


def _told(shapes: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, shape.metadata.get("error", {})) for name, shape in sorted(shapes.items())]


OURS = {"batchentryidsnotdistinct", "emptybatchrequest", "invalidbatchentryid", "toomanyentriesinbatchrequest"}
"""Requests of a shape that this plug-in never sends."""
NO_NAME = {"invalidaddress", "unsupportedoperation", "endpointdisabled", "platformapplicationdisabled"}
NO_NAME |= {"taglimitexceeded", "tagpolicy"}
"""About a place, and nothing more is known of them."""


def test_every_error_of_the_services_has_its_family() -> None:
    found = codes("sqs", "GetQueueUrl", "CreateQueue", "SendMessageBatch")
    found += codes("sns", "CreateTopic", "GetTopicAttributes", "ListTopics", "PublishBatch")
    assert len(found) > 40
    unknown = set()
    for code, status in found:
        about, error, _ = fault(refusal(code, status=status), SERVER, "orders")
        assert isinstance(error, FixError | RetryError | ParkError)
        assert (about is About.MESSAGE) is isinstance(error, ParkError)
        if about is About.PLACE and type(error) is FixError and not error.remedy:
            unknown.add(code.lower())
    assert unknown == OURS | NO_NAME


@pytest.mark.parametrize(
    ("code", "about", "kind"),
    [
        ("AWS.SimpleQueueService.NonExistentQueue", About.PLACE, SchemaMissing),
        ("QueueDoesNotExist", About.PLACE, SchemaMissing),
        ("NotFound", About.PLACE, SchemaMissing),
        ("AWS.SimpleQueueService.QueueDeletedRecently", About.PLACE, Unavailable),
        ("AccessDenied", About.PLACE, AccessDenied),
        ("AuthorizationError", About.PLACE, AccessDenied),
        ("KMS.AccessDeniedException", About.PLACE, AccessDenied),
        ("KMS.ThrottlingException", About.PLACE, Unavailable),
        ("ThrottlingException", About.PLACE, Unavailable),
        ("RequestThrottled", About.PLACE, Unavailable),
        ("InvalidClientTokenId", About.SERVICE, AccessDenied),
        ("SignatureDoesNotMatch", About.SERVICE, AccessDenied),
        ("ServiceUnavailable", About.SERVICE, Unavailable),
        ("AWS.SimpleQueueService.BatchRequestTooLong", About.MESSAGE, ParkError),
        ("InvalidMessageContents", About.MESSAGE, ParkError),
        ("SomethingNew", About.PLACE, FixError),
        ("404", About.SERVICE, FixError),
    ],
)
def test_whom_an_error_is_about(code: str, about: About, kind: type[FencepostError]) -> None:
    found = fault(refusal(code), SERVER, "orders")
    assert (found.about, type(found.error)) == (about, kind)
    assert "SQS eu-west-1" in str(found.error)
    assert (found.pause_s > 0) is ("Recently" in code)


def test_a_wrong_address_of_a_topic_is_not_a_messages_fault() -> None:
    """Otherwise every message of the topic would be parked for a region that was mistyped."""
    found = fault(refusal("InvalidParameter", "Invalid parameter: TopicArn Reason: no such region"), SERVER)
    assert (found.about, type(found.error)) == (About.PLACE, FixError)


def test_every_error_of_the_library_is_about_the_service() -> None:
    kinds = [cls for cls in every_class(boto.BotoCoreError) if cls.__module__ == "botocore.exceptions"]
    assert len(kinds) > 60
    for error in [*[cls.__new__(cls) for cls in kinds], OSError("x"), TimeoutError()]:
        about, found, _ = fault(error, Sns("eu-west-1"), "orders")
        assert about is About.SERVICE
        assert isinstance(found, FixError | RetryError)
        assert "DynamoDB" not in str(found)
        assert (
            isinstance(found, RetryError)
            or not isinstance(error, boto.HTTPClientError | OSError)
            or (isinstance(error, boto.SSLError))
        )


@pytest.mark.parametrize(
    ("code", "sender", "about", "kind"),
    [
        ("InvalidMessageContents", True, About.MESSAGE, ParkError),
        ("SomethingNew", True, About.MESSAGE, ParkError),
        ("SomethingNew", False, About.MESSAGE, Unavailable),
        ("InternalError", False, About.MESSAGE, Unavailable),
        ("ThrottlingException", True, About.PLACE, Unavailable),
        ("KMS.DisabledException", True, About.PLACE, FixError),
    ],
)
def test_the_refusal_of_one_message_of_a_request(
    code: str, sender: bool, about: About, kind: type[FencepostError]
) -> None:
    found = fault_of_entry({"Id": "0", "Code": code, "SenderFault": sender}, SERVER, "message 1")
    assert (found.about, type(found.error)) == (about, kind)
    assert not isinstance(found.error, ParkError) or found.error.at_once is (code != "SomethingNew")
