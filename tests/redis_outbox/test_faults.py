"""Every error of redis-py, and every answer of a server, belongs to one of the four families."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from redis import exceptions

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    FixError,
    RetryError,
    Unavailable,
)
from fencepost.resp.address import address_of
from fencepost.resp.faults import ERRORS, fault_of

CLASSES = [
    found
    for _, found in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(found, Exception) and found.__module__ == exceptions.__name__
    if found.__name__ != "IncorrectPolicyType"  # of clients of clusters, which are not used here
]
MISTAKES = {
    "ChildDeadlockedError",
    "DataError",
    "InvalidPipelineStack",
    "LockError",
    "LockNotOwnedError",
    "PubSubError",
    "RedisClusterException",
    "RedisError",
    "ClusterError",
    "WatchError",
}
"""What says nothing of a server: the caller's own mistakes, and what only other parts of the library raise."""


def made(kind: type[Exception]) -> Exception:
    if issubclass(kind, exceptions.AskError):
        return kind("3999 127.0.0.1:6381")
    try:
        return kind("something")
    except TypeError:
        return kind()


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_has_a_family(kind: type[Exception]) -> None:
    error = made(kind)
    assert isinstance(error, ERRORS)
    fault = fault_of(error, "Redis here")
    assert isinstance(fault, RetryError | FixError)
    if kind.__name__ in MISTAKES:
        assert type(fault) is FixError
    else:
        assert type(fault) is not FixError or kind.__name__ in {"ModuleError", "NoSuchFieldsetError"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("NOAUTH Authentication required.", AccessDenied),
        ("WRONGPASS invalid username-password pair or user is disabled.", AccessDenied),
        ("NOPERM this user has no permissions to run the 'xadd' command", AccessDenied),
        ("ERR AUTH <password> called without any password configured for the default user", AccessDenied),
        ("READONLY You can't write against a read only replica.", ConnectionLost),
        ("UNBLOCKED force unblock from blocking operation, instance state changed", ConnectionLost),
        ("MOVED 866 127.0.0.1:7001", ConnectionLost),
        ("LOADING Redis is loading the dataset in memory", Unavailable),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Unavailable),
        ("CLUSTERDOWN Hash slot not served", Unavailable),
        ("OOM command not allowed when used memory > 'maxmemory'.", Unavailable),
        ("MISCONF Redis is configured to save RDB snapshots, but it is currently unable to", Unavailable),
        ("NOREPLICAS Not enough good replicas to write.", Unavailable),
        ("BUSY Redis is busy running a script.", Unavailable),
        ("ERR max number of clients reached", Unavailable),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", ConfigurationError),
        ("CROSSSLOT Keys in request don't hash to the same slot", ConfigurationError),
        ("DENIED Redis is running in protected mode", ConfigurationError),
        ("ERR DB index is out of range", ConfigurationError),
        ("ERR SELECT is not allowed in cluster mode", ConfigurationError),
        ("ERR unknown command 'XADD', with args beginning with:", FixError),
        ("ERR something that nobody has seen before", Unavailable),
    ],
)
def test_every_answer_has_a_family(answer: str, kind: type[FencepostError]) -> None:
    fault = fault_of(exceptions.ResponseError(answer), "Redis here")
    assert type(fault) is kind
    assert fault.what.startswith("Redis here: ")


def test_errors_of_the_network_have_families() -> None:
    assert type(fault_of(exceptions.TimeoutError("Timeout"), "x")) is DeadlineExceeded
    assert type(fault_of(exceptions.ConnectionError("Connection closed by server."), "x")) is ConnectionLost
    refused = fault_of(exceptions.ConnectionError("Error 111 connecting to 127.0.0.1:1."), "x", connecting=True)
    assert type(refused) is Unavailable
    assert "is the server running" in refused.remedy


# ------------------------------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("url", "place", "expected"),
    [
        ("redis://localhost", "Redis localhost", {"host": "localhost"}),
        ("redis://u:p%40ss@db.example:7000/3", "Redis db.example:7000/3", {"password": "p@ss", "port": 7000, "db": 3}),
        ("valkey://h:1/0", "Redis h:1/0", {"host": "h"}),
        ("redis+cluster://h:1", "Redis h:1", {"host": "h"}),
        ("rediss://h:1/0?ssl_cert_reqs=none", "Redis h:1/0", {"ssl_cert_reqs": "none"}),
        ("redis://h/0?protocol=3&decode_responses=True", "Redis h/0", {"protocol": 2, "decode_responses": False}),
    ],
)
def test_urls(url: str, place: str, expected: dict[str, Any]) -> None:
    found = address_of(url)
    assert found.place == place
    assert {name: found.arguments[name] for name in expected} == expected


def test_sentinel_urls() -> None:
    found = address_of("redis+sentinel://u:secret@a:1,b:26380,c/orders/2")
    assert (found.sentinels, found.service) == ((("a", 1), ("b", 26380), ("c", 26379)), "orders")
    assert (found.arguments["db"], found.arguments["password"]) == (2, "secret")
    assert "secret" not in found.place
    assert address_of("redis+sentinel://[::1]:26381/orders").sentinels == (("::1", 26381),)


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "redis",
        "redis://h/orders",
        "redis://h/0?no_such_option=1",
        "redis://h:port/0",
        "redis+sentinel://a:1,b:2",
        "redis+sentinel://a:b/orders",
    ],
)
def test_wrong_urls_are_refused_without_their_secrets(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write redis://|known are client_name") as caught:
        address_of(url.replace("://h", "://user:hunter2@h"))
    assert "hunter2" not in str(caught.value)
