"""Addresses of DynamoDB, and what its libraries raise, in families. Without a server."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from botocore import exceptions as boto

from fencepost.aws.address import Address, address_of
from fencepost.aws.faults import fault_of
from fencepost.databases import dynamodb
from fencepost.databases.dynamodb.items import ITEM_BYTES, attributes_of, bytes_of, stored
from fencepost.databases.dynamodb.position import position_of, slot_in, time_in
from fencepost.databases.dynamodb.tables import key
from fencepost.elections.dynamodb import lease_store
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    Contention,
    DeadlineExceeded,
    FencepostError,
    FixError,
    RetryError,
    SchemaMissing,
    Unavailable,
)
from fencepost.message import Message, slot_of
from fencepost.ports import DatabaseOptions, LeaseOptions
from fencepost.testing.messages import message, rich


def test_an_address_says_everything() -> None:
    url = "dynamodb://eu-west-1/shop.?endpoint=http://127.0.0.1:8000&buckets=16&idle_s=2.5"
    assert address_of(url) == Address("eu-west-1", "http://127.0.0.1:8000", "shop.", 16, 2.5)
    assert address_of("dynamodb://us-east-1") == Address("us-east-1")
    assert address_of(url).table("fencepost_", "outbox") == "shop.fencepost_outbox"


def test_only_a_server_of_this_machine_is_given_any_credentials() -> None:
    for endpoint, local in (
        ("http://127.0.0.1:8000", True),
        ("http://localhost:8000", True),
        ("http://[::1]:8000", True),
        ("https://dynamodb.eu-west-1.amazonaws.com", False),
        ("http://10.0.0.1:8000", False),
        ("http://127.0.0.1.example.com", False),
    ):
        assert address_of(f"dynamodb://eu-west-1/?endpoint={endpoint}").is_local is local
    assert not address_of("dynamodb://eu-west-1").is_local


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("dynamodb://", "write dynamodb://REGION"),
        ("dynamodb:///x", "write dynamodb://REGION"),
        ("dynamodb://EU/", "write dynamodb://REGION"),
        ("dynamodb://eu-west-1/a/b", "cannot stand before the names"),
        ("dynamodb://eu-west-1/?bucket=4", "did you mean 'buckets'"),
        ("dynamodb://eu-west-1/?buckets=4&buckets=8", "says something twice"),
        ("dynamodb://eu-west-1/?buckets=3", "it is 1, 2, 4, 8, ... 256"),
        ("dynamodb://eu-west-1/?buckets=512", "it is 1, 2, 4, 8, ... 256"),
        ("dynamodb://eu-west-1/?idle_s=0", "a number of seconds from 0.05 to 3600"),
        ("dynamodb://eu-west-1/?idle_s=nan", "a number of seconds from 0.05 to 3600"),
        ("dynamodb://eu-west-1/?endpoint=127.0.0.1:8000", "write endpoint=http://host:port"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        address_of(url)


@pytest.mark.parametrize(
    "url", ["dynamodb://KEY:SECRET@eu-west-1/", "dynamodb://eu-west-1/?endpoint=http://KEY:SECRET@host:1"]
)
def test_credentials_in_an_address_are_refused_and_not_shown(url: str) -> None:
    """G6"""
    with pytest.raises(ConfigurationError) as raised:
        address_of(url)
    assert "SECRET" not in str(raised.value)
    assert "KEY" not in str(raised.value)


def test_what_cannot_be_had_is_refused() -> None:
    url = "dynamodb://eu-west-1"
    for make in (dynamodb.source, dynamodb.schema):
        with pytest.raises(ConfigurationError, match="no schemas"):
            make(DatabaseOptions(url=url, schema="public"))
        with pytest.raises(ConfigurationError, match="cannot be kept"):
            make(DatabaseOptions(url=url, settle="mark"))
        with pytest.raises(ConfigurationError, match="cannot be the name of a table"):
            make(DatabaseOptions(url=url, prefix="x" * 250))
    with pytest.raises(ConfigurationError, match="no schemas"):
        lease_store(LeaseOptions(url=url, schema="public"))
    with pytest.raises(ConfigurationError, match="have no setting 'look'"):
        lease_store(LeaseOptions(url=url, settings={"look": 1}))
    with pytest.raises(ConfigurationError, match=r"from 0\.05 to 60"):
        lease_store(LeaseOptions(url=url, settings={"look_every_s": True}))


def service_error(code: str, status: int = 400, reasons: list[str] | None = None) -> boto.ClientError:
    response: dict[str, Any] = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    if reasons is not None:
        response["CancellationReasons"] = [{"Code": reason} for reason in reasons]
    return boto.ClientError(response, "Query")  # type: ignore[arg-type,unused-ignore]


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (service_error("ProvisionedThroughputExceededException"), Unavailable),
        (service_error("ThrottlingException"), Unavailable),
        (service_error("RequestLimitExceeded"), Unavailable),
        (service_error("InternalServerError", 500), ConnectionLost),
        (service_error("SomethingNew", 503), ConnectionLost),
        (service_error("SomethingNew"), FixError),
        (service_error("ValidationException"), FixError),
        (service_error("AccessDeniedException"), AccessDenied),
        (service_error("ExpiredTokenException"), AccessDenied),
        (service_error("UnrecognizedClientException"), AccessDenied),
        (service_error("ResourceNotFoundException"), SchemaMissing),
        (service_error("TransactionConflictException"), Contention),
        (service_error("TransactionCanceledException", reasons=["None", "TransactionConflict"]), Contention),
        (service_error("TransactionCanceledException", reasons=["ThrottlingError", "None"]), Unavailable),
        (service_error("TransactionCanceledException", reasons=["ConditionalCheckFailed"]), Contention),
        (service_error("TransactionCanceledException", reasons=["TransactionConflict", "ValidationError"]), FixError),
        (boto.EndpointConnectionError(endpoint_url="x"), Unavailable),
        (boto.ReadTimeoutError(endpoint_url="x"), DeadlineExceeded),
        (boto.ConnectionClosedError(endpoint_url="x"), ConnectionLost),
        (boto.NoCredentialsError(), AccessDenied),
        (ConnectionResetError("x"), ConnectionLost),
        (TimeoutError(), DeadlineExceeded),
    ],
)
def test_errors_of_the_library_have_their_family(error: Exception, family: type[FencepostError]) -> None:
    fault = fault_of(error, "DynamoDB there")
    assert type(fault) is family
    assert str(fault).startswith("DynamoDB there: ")


def every_class(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from every_class(sub)


def test_every_error_of_the_library_has_a_family() -> None:
    classes = [cls for cls in every_class(boto.BotoCoreError) if cls.__module__.startswith("botocore.exceptions")]
    assert len(classes) > 60
    for cls in classes:
        error = cls.__new__(cls)
        assert isinstance(fault_of(error, "there"), FixError | RetryError), cls
        waits = issubclass(cls, boto.HTTPClientError) and cls is not boto.SSLError
        assert isinstance(fault_of(error, "there"), RetryError) or not waits, cls


def test_positions_sort_by_time_and_tell_their_slot() -> None:
    m = message("k")
    slot = slot_of(m.key, m.id)
    positions = [position_of(time_us, slot, m.id) for time_us in (0, 1, 15, 16, 1_800_000_000_000_000, 2**55)]
    assert positions == sorted(positions)
    assert {slot_in(position) for position in positions} == {slot}
    assert [time_in(position) for position in positions][-2:] == [1_800_000_000_000_000, 2**55]


@pytest.mark.parametrize("m", [message("k"), rich("k"), message(payload=None), message(payload=b"")])
def test_an_item_is_its_message(m: Message) -> None:
    back = stored({**key("pending#0", "p"), **attributes_of(m, "before")})
    assert (back.id, back.topic, back.key, back.payload, back.type) == (m.id, m.topic, m.key, m.payload, m.type)
    assert (back.content_type, dict(back.headers or {})) == (m.content_type, dict(m.headers))


def test_a_size_is_never_told_too_small() -> None:
    """What the service counts: names and texts in UTF-8, one byte for two digits, three for a map and one for each."""
    item = attributes_of(rich("\U0001f600"), None)
    least = sum(len(name.encode()) for name in item)
    least += sum(len(v["S"].encode()) for v in item.values() if "S" in v)
    least += sum(len(v["B"]) for v in item.values() if "B" in v)
    least += sum(len(v["N"]) // 2 + 1 for v in item.values() if "N" in v)
    least += 3 + sum(1 + len(n.encode()) + len(v["S"].encode()) for n, v in item["headers"]["M"].items())
    assert least <= bytes_of(item) <= least + 100 < ITEM_BYTES


def test_the_applications_side_needs_no_library_of_the_relay() -> None:
    """A program with boto3 of another version than aiobotocore's."""
    import subprocess
    import sys

    program = (
        "import sys; sys.modules['aiobotocore'] = None; sys.modules['botocore'] = None\n"
        "from fencepost.databases import dynamodb\n"
        "from fencepost.errors import MissingExtra\n"
        "from fencepost.ports import DatabaseOptions\n"
        "dynamodb.DynamoOutbox().transaction(object())\n"
        "try:\n    dynamodb.source(DatabaseOptions(url='dynamodb://eu-west-1'))\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "[dynamodb]" in done.stdout
    assert inspect.isclass(dynamodb.DynamoOutbox)
