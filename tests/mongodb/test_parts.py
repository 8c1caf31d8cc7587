"""Addresses, positions, keys, and the families of the driver's errors: what needs no server."""

from __future__ import annotations

import inspect
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from bson import ObjectId
from bson import errors as bson_errors
from hypothesis import given
from hypothesis import strategies as st
from pymongo import errors as pm

from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.mongodb.embedded.document import key_of
from fencepost.databases.mongodb.positions import Ticks, belongs, position_of, time_of
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
from fencepost.message import KEY_CHARACTERS_MAX, Message, check
from fencepost.mongo.address import parse
from fencepost.mongo.faults import ERRORS, fault_of

# --- errors

CLASSES = sorted(
    {
        cls
        for module in (pm, bson_errors)
        for cls in vars(module).values()
        if inspect.isclass(cls) and issubclass(cls, Exception) and cls.__module__ == module.__name__
    },
    key=lambda cls: cls.__name__,
)

EXPECTED: dict[type[Exception], type[FencepostError]] = {
    pm.AutoReconnect: ConnectionLost,
    pm.ConfigurationError: ConfigurationError,
    pm.ConnectionFailure: ConnectionLost,
    pm.CursorNotFound: ConnectionLost,
    pm.DocumentTooLarge: FixError,
    pm.ExecutionTimeout: DeadlineExceeded,
    pm.InvalidOperation: ConnectionLost,
    pm.InvalidURI: ConfigurationError,
    pm.NetworkTimeout: DeadlineExceeded,
    pm.NotPrimaryError: ConnectionLost,
    pm.ProtocolError: ConnectionLost,
    pm.ServerSelectionTimeoutError: ConnectionLost,
    pm.WTimeoutError: DeadlineExceeded,
    pm.WaitQueueTimeoutError: DeadlineExceeded,
    bson_errors.InvalidDocument: FixError,
}

CODES = {
    13: AccessDenied,
    18: AccessDenied,
    20: ConfigurationError,
    26: SchemaMissing,
    50: DeadlineExceeded,
    64: DeadlineExceeded,
    85: FixError,
    91: ConnectionLost,
    112: Contention,
    189: ConnectionLost,
    251: Contention,
    10107: ConnectionLost,
    11000: Contention,
    11600: ConnectionLost,
    13435: ConnectionLost,
    99_999: Unavailable,
}


def made(cls: type[Exception]) -> Exception:
    if issubclass(cls, pm.BulkWriteError):
        return cls({"writeErrors": [{"code": 112, "errmsg": "conflict"}]})
    if issubclass(cls, pm.ClientBulkWriteException):
        return cls({"writeErrors": []}, verbose=False)
    if issubclass(cls, pm.EncryptedCollectionError):
        return cls(ValueError("what was wrong"), {})
    if issubclass(cls, pm.EncryptionError):
        return cls(ValueError("what was wrong"))
    return cls("what was wrong")


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_of_the_driver_has_a_family(cls: type[Exception]) -> None:
    error = made(cls)
    assert isinstance(error, ERRORS)
    fault = fault_of(error, "MongoDB db1/shop")
    assert isinstance(fault, FixError | RetryError)
    assert fault.what.startswith("MongoDB db1/shop: ")
    expected = EXPECTED.get(cls)
    assert expected is None or type(fault) is expected


def test_the_walk_found_the_classes() -> None:
    assert len(CLASSES) > 25
    assert set(EXPECTED) <= set(CLASSES)


@pytest.mark.parametrize(("code", "family"), CODES.items())
def test_the_servers_numbers_decide(code: int, family: type[FencepostError]) -> None:
    fault = fault_of(pm.OperationFailure("said the server, full error: {'much': 1}", code), "here")
    assert type(fault) is family
    assert fault.what == "here: said the server"
    bulk = pm.BulkWriteError({"writeErrors": [{"code": code, "errmsg": "said the server"}], "writeConcernErrors": []})
    assert type(fault_of(bulk, "here")) is family
    late = pm.BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": code, "errmsg": "said the server"}]})
    assert type(fault_of(late, "here")) is family


# --- addresses


def test_an_address_is_taken_apart() -> None:
    found = parse("mongodb://app:p%40ss@db1:27017,db2/shop?replicaSet=rs0&authSource=admin")
    assert found.uri == "mongodb://app:p%40ss@db1:27017,db2/shop?replicaSet=rs0&authSource=admin"
    assert (found.database, found.place, found.collections) == ("shop", "MongoDB db1:27017,db2/shop", ())
    found = parse("mongodb-embedded+srv://app:secret@cluster/shop?collections=orders,customers&w=1")
    assert (found.uri, found.collections) == ("mongodb+srv://app:secret@cluster/shop?w=1", ("orders", "customers"))
    assert parse("mongodb://db1/shop", "other").database == "other"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://db1/shop", "not the URL of a MongoDB"),
        ("mongodb://db1:27017", "names no database"),
        ("mongodb:///shop", "names no host"),
        ("mongodb://db1/a b", "cannot be the name"),
        ("mongodb://app:secret@db1/shop?collections=orders", "inside business documents"),
        ("mongodb-embedded://app:secret@db1/shop", "which collections"),
        ("mongodb-embedded://db1/shop?collections=", "which collections"),
        ("mongodb-embedded://db1/shop?collections=orders,$x", "not names of collections"),
        ("mongodb-embedded://db1/shop?collections=system.views", "not names of collections"),
    ],
)
def test_what_is_no_address_is_refused_with_a_remedy(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words.replace("$", r"\$")) as refused:
        parse(url)
    assert refused.value.remedy
    assert "secret" not in str(refused.value)


# --- positions and keys

TIMES = st.integers(0, 16**14 - 1)


@given(TIMES, TIMES)
def test_positions_sort_by_their_times_and_belong_to_one_message(one_us: int, other_us: int) -> None:
    a, b = SYSTEM_CLOCK.new_id(), SYSTEM_CLOCK.new_id()
    first, second = position_of(one_us, a), position_of(other_us, b)
    assert one_us == other_us or (first < second) == (one_us < other_us)
    assert first != second
    assert (time_of(first), len(first), first.isascii()) == (one_us, 36, True)
    assert belongs(first, a)
    assert not belongs(first, b)
    assert not belongs(7, a)


def test_times_of_a_process_only_grow() -> None:
    ticks = Ticks(SYSTEM_CLOCK)
    drawn = [ticks.draw(3) for _ in range(1_000)]
    assert all(later >= earlier + 3 for earlier, later in pairwise(drawn))


IDS: list[tuple[Any, str | None]] = [
    ("order-1", "order-1"),
    (7, "7"),
    (ObjectId("0123456789abcdef01234567"), "0123456789abcdef01234567"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ({"shop": 1, "order": 2}, '{"shop": {"$numberInt": "1"}, "order": {"$numberInt": "2"}}'),
    (1.5, '{"$numberDouble": "1.5"}'),
    (" outer blanks ", None),
    ("line\nfeed", None),
    ("", None),
    ("x" * 300, None),
]


@pytest.mark.parametrize(("document_id", "expected"), IDS, ids=lambda value: repr(value)[:20])
def test_every_id_of_a_document_is_a_key(document_id: Any, expected: str | None) -> None:
    key = key_of(document_id)
    assert key == expected or (expected is None and key.startswith("sha256:"))
    assert len(key) <= KEY_CHARACTERS_MAX
    now = SYSTEM_CLOCK.now()
    check(Message(id=SYSTEM_CLOCK.new_id(), topic="t", payload=b"", occurred_at=now, key=key), max_bytes=None)


def test_ids_that_differ_are_keys_that_differ() -> None:
    assert len({key_of(document_id) for document_id, _ in IDS}) == len(IDS)
