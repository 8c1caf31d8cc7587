"""The parts of the NATS broker that need no stream: addresses, settings, subjects, errors, encoding, frames."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import nats
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nats import errors as library

from fencepost import errors, plugins
from fencepost.brokers.nats import refused, wire
from fencepost.brokers.nats.address import Address, connect_options
from fencepost.brokers.nats.encode import Encoder
from fencepost.brokers.nats.errors import _BY_CLASS, _BY_ERR_CODE, Refusal, from_library
from fencepost.brokers.nats.settings import Settings
from fencepost.brokers.nats.subjects import covers, subject_fault
from fencepost.envelope import Format, envelope
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    FixError,
    ParkError,
    RetryError,
    StopError,
)
from fencepost.ports import BrokerOptions
from tests.brokers.nats_kit import Place
from tests.brokers.rows import payloads, row, rows

FAMILIES = (errors.FixError, errors.RetryError, errors.ParkError, errors.StopError)


# -- addresses and settings ----------------------------------------------------------------------------------------


def test_the_plug_in_is_found_by_its_name() -> None:
    module = plugins.load("broker", plugins.name_of("broker", "nats+tls://host:4222"))
    made = module.broker(BrokerOptions(url="nats+tls://host:4222", source="/shop"))
    assert type(made).__name__ == "NatsBroker"


def test_addresses() -> None:
    address = Address.of("nats://u:p%40ss@a:1, nats+tls://b,c:3")
    assert address.servers == ("nats://a:1", "tls://b", "nats://c:3")
    assert address.credentials == {"user": "u", "password": "p@ss"}
    assert (str(address), address.wants_tls) == ("a:1, b, c:3", True)
    assert Address.of("nats://token@a:1").credentials == {"token": "token"}
    assert not Address.of("nats://a:1").wants_tls


@pytest.mark.parametrize(
    "url",
    ["", ",", "http://host:4222", "nats://", "kafka://host", "nats://u:secret@host:port", "nats://a:0", "nats://[::1"],
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Address.of(url)
    assert "secret" not in str(caught.value)


def test_credentials_of_the_settings_count_more_than_those_of_the_url() -> None:
    address = Address.of("nats://u:p@a:1")
    assert connect_options(address, Settings())["password"] == "p"
    chosen = connect_options(address, Settings(token="t"))
    assert (chosen["token"], "user" in chosen, chosen["allow_reconnect"]) == ("t", False, False)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"user": "u", "password": "p", "token": "t"}, ["token"]),
        ({"token": "t", "nkey_seed": "s"}, ["nkey_seed"]),
        ({"user": "u", "credentials": "c", "nkey_seed": "s"}, ["credentials", "nkey_seed"]),
        ({"password": "p"}, ["password"]),
        ({"user": "u", "password": "p"}, []),
    ],
)
def test_there_is_one_way_to_log_in(given: dict[str, object], wrong: list[str]) -> None:
    assert list(refused("nats://h", given)) == wrong


def test_servers_of_one_url_share_a_login() -> None:
    assert Address.of("nats://u:p@a:1,nats://u:p@b:1,c").credentials == {"user": "u", "password": "p"}
    with pytest.raises(ConfigurationError, match="several logins"):
        Address.of("nats://u:p@a:1,nats://v:p@b:1")


def test_a_path_is_one_of_web_sockets_only() -> None:
    assert Address.of("wss://h/nats").servers == ("wss://h/nats",)
    assert Address.of("nats://h:4222/").servers == ("nats://h:4222",)
    with pytest.raises(ConfigurationError, match="has no path"):
        Address.of("nats://h:4222/path")


def test_settings_have_defaults_and_are_read() -> None:
    assert Settings.read({}) == Settings()
    found = Settings.read({"stream": "S", "subjects": "a.>, b", "replicas": 3, "duplicate_window_s": 1, "token": 7})
    assert found == Settings(stream="S", subjects=("a.>", "b"), replicas=3, duplicate_window_s=1.0, token="7")
    assert Settings.read({"subjects": ["x"]}).subjects == ("x",)
    assert Settings.read({"domain": "hub"}).api == "$JS.hub.API"


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    """H4."""
    with pytest.raises(ConfigurationError, match="no setting 'steam'") as caught:
        Settings.read({"steam": "x"})
    assert "stream" in caught.value.remedy
    assert "subject_prefix" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stream", ""),
        ("stream", "a b"),
        ("stream", "a.b"),
        ("stream", 1.5),
        ("stream", True),
        ("subjects", 5),
        ("subjects", ["a", 5]),
        ("subjects", "a..b"),
        ("subjects", ">.a"),
        ("subjects", "a*"),
        ("subjects", "$JS.>"),
        ("subject_prefix", "a b."),
        ("subject_prefix", ".a."),
        ("subject_prefix", "fencepost.receipt."),
        ("inbox_prefix", "a.>"),
        ("inbox_prefix", ""),
        ("replicas", 0),
        ("replicas", "three"),
        ("replicas", True),
        ("batch_max", -1),
        ("duplicate_window_s", 0),
        ("duplicate_window_s", "long"),
        ("credentials", "/no/such/file"),
        ("tls_ca", "/no/such/file"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_name(name: str, value: object) -> None:
    """H4."""
    with pytest.raises(ConfigurationError, match=name):
        Settings.read({name: value})


def test_a_secret_is_not_repeated() -> None:
    for name in ("password", "token"):
        _, errors = Settings.parse({name: ["secret-word"]})
        assert "secret-word" not in str(errors[name])
        assert "secret-word" not in repr(Settings.parse({name: "secret-word"})[0])


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    made = tmp_path / "cert.pem"
    made.touch()
    with pytest.raises(ConfigurationError, match="belong together"):
        Settings.read({"tls_cert": str(made)})


# -- subjects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "a.b", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("*.b", "a.b", True),
        ("*.b", "a.c", False),
        ("a.>", "a.*", True),
        ("a.>", "a.>", True),
        ("a.*", "a.>", False),
        ("a.b", "a.*", False),
        (">", "a.>", True),
        ("a.>", ">", False),
        ("*.*", "a.*", True),
        ("*", ">", False),
    ],
)
def test_which_subjects_a_pattern_covers(pattern: str, subject: str, expected: bool) -> None:
    assert covers(pattern, subject) is expected


TOKENS = st.lists(st.sampled_from(["a", "b", "*", ">"]), min_size=1, max_size=4)


@settings(deadline=None)
@given(TOKENS, TOKENS, st.lists(st.sampled_from("ab"), min_size=1, max_size=5))
def test_what_a_covered_pattern_covers_is_covered(wide: list[str], narrow: list[str], literal: list[str]) -> None:
    patterns = [".".join(tokens) for tokens in (wide, narrow)]
    if any(subject_fault(p, wildcards=True) for p in patterns):
        return
    if covers(*patterns) and covers(patterns[1], ".".join(literal)):
        assert covers(patterns[0], ".".join(literal))


@settings(deadline=None)
@given(st.from_regex(r"[A-Za-z0-9_/-]{1,20}(\.[A-Za-z0-9_/-]{1,20}){0,3}", fullmatch=True))
def test_ordinary_topics_are_subjects(topic: str) -> None:
    assert subject_fault(topic) == ""


# -- errors --------------------------------------------------------------------------------------------------------


def library_errors() -> list[type[Exception]]:
    """Every error class of the client library, but its root."""
    classes = [c for _, c in inspect.getmembers(library, inspect.isclass) if issubclass(c, library.Error)]
    return [c for c in classes if c is not library.Error]


@pytest.mark.parametrize("kind", library_errors(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_library_has_a_family(kind: type[Exception]) -> None:
    """A class that a new version adds fails here until somebody has decided."""
    assert kind.__name__ in _BY_CLASS
    made = kind.__new__(kind)
    made.args = ("it happened",)
    for name in ("subject", "reply", "sid", "sub", "key", "_msg"):
        setattr(made, name, "x")
    assert isinstance(from_library(made, "doing it"), FAMILIES)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("nats: 'Authorization Violation'", AccessDenied),
        ("nats: 'User Authentication Expired'", AccessDenied),
        ('nats: permissions violation for publish to "x"', AccessDenied),
        ("nats: 'Maximum Connections Exceeded'", errors.Unavailable),
    ],
)
def test_errors_that_the_library_gives_as_text(text: str, family: type[Exception]) -> None:
    assert type(from_library(library.Error(text), "connecting")) is family


def test_errors_of_the_socket() -> None:
    assert type(from_library(ConnectionResetError("reset"), "x")) is ConnectionLost
    assert type(from_library(ConnectionRefusedError("refused"), "x")) is errors.Unavailable
    assert from_library(OSError(), "connecting").what == "connecting: OSError"
    assert "check host and port" in from_library(OSError(), "connecting").remedy
    assert from_library(ConnectionResetError("reset"), "x").remedy == ""


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (library.Error("nats: 'Authorization Violation'"), "check user, password, token or credentials"),
        (library.Error('nats: permissions violation for publish to "x"'), "docs/nats.md lists all that it needs"),
        (library.NoServersError(), "check host and port"),
        (library.TimeoutError(), "timeout_s"),
        (ConnectionRefusedError("refused"), "check host and port"),
    ],
)
def test_a_person_is_told_what_to_do(error: Exception, remedy: str) -> None:
    assert remedy in from_library(error, "connecting").remedy


# The codes of the server that can answer what this plug-in asks, by what their names say.
STOP = {10071}
PARK = {10054, 10097}
RETRY = {
    *(
        0,
        10002,
        10004,
        10007,
        10008,
        10009,
        10013,
        10023,
        10028,
        10041,
        10047,
        10058,
        10075,
        10077,
        10096,
        10105,
        10118,
        10124,
        10148,
        10158,
    ),
    *(10163, 10164, 10167, 10176, 10194, 10202, 10210, 10226),
}
FIX = {
    *(10099, 10100),
    *(
        10003,
        10005,
        10025,
        10026,
        10027,
        10035,
        10039,
        10052,
        10053,
        10059,
        10060,
        10065,
        10069,
        10074,
        10076,
        10109,
        10110,
    ),
    *(10113, 10120, 10122, 10133, 10174, 10175, 10177, 10179, 10185, 10199, 10200, 10201),
}


def test_every_known_code_of_the_server_has_its_family() -> None:
    for codes, family in ((STOP, StopError), (PARK, ParkError), (RETRY, RetryError), (FIX, FixError)):
        for err_code in codes:
            assert isinstance(Refusal(400, err_code, "no").as_error("asking"), family), err_code
    assert set(_BY_ERR_CODE) == STOP | PARK | RETRY | FIX


@pytest.mark.parametrize(
    ("code", "family"),
    [(400, FixError), (404, FixError), (408, RetryError), (429, RetryError), (500, RetryError), (503, RetryError)],
)
def test_codes_that_nobody_knows_are_judged_by_their_class(code: int, family: type[Exception]) -> None:
    error = Refusal(code, 19999, "something new").as_error("asking")
    assert isinstance(error, family)
    assert "something new" in str(error)
    assert "19999" in str(error)


def test_answers_without_a_refusal() -> None:
    assert Refusal.of({}) is None
    assert Refusal.of({"stream": "s", "seq": 5}) is None
    found = Refusal.of({"error": {"code": 503, "err_code": 10077, "description": "full"}})
    assert found is not None
    assert (found.code, found.err_code, found.description) == (503, 10077, "full")


# -- encoding and frames -------------------------------------------------------------------------------------------


def test_a_frame_counts_bytes() -> None:
    head = "NATS/1.0\r\na: \u00e9\r\n\r\n".encode()
    assert wire.frame(b"s", b"", head, b"xy") == b"HPUB s 19 21\r\n" + head + b"xy\r\n"
    assert wire.frame(b"s", b"r.1", head, b"") == b"HPUB s r.1 19 19\r\n" + head + b"\r\n"


def test_text_that_is_no_text_is_set_aside() -> None:
    """Rows of a foreign table may hold what ``add`` would have refused."""
    encoder = Encoder(envelope(Format.CLOUDEVENTS_BINARY, "/shop", "ce-"), "")
    encoded, failed = encoder.batch([row(1), row(2, key="\ud800"), row(3)], 10_000)
    assert ([f.message.position for f in failed], len(encoded)) == ([2], 2)
    assert failed[0].at_once


@pytest.mark.parametrize(
    "fields",
    [
        {"key": "a\r\nNats-Batch-Commit: 1"},
        {"key": "a\nb"},
        {"key": "a\rb"},
        {"key": " a"},
        {"key": "a\u3000"},
        {"type": "a\r\nb"},
        {"content_type": "a\nb"},
        {"headers": {"a": "b\r\nc: d"}},
        {"headers": {"a\r\nb": "c"}},
        {"headers": {"a: b": "c"}},
        {"headers": {"": "c"}},
        {"headers": {"\u00e4": "c"}},
        {"headers": {"Nats-Rollup": "all"}},
        {"headers": {"fine": "x", "nats-batch-commit": "1"}},
    ],
)
def test_headers_that_would_be_read_as_something_else_are_set_aside(fields: dict[str, Any]) -> None:
    """Keys may hold line breaks, and rows of a foreign table anything."""
    bad = row(2, **fields)
    _, failed = Encoder(envelope(Format.CLOUDEVENTS_BINARY, "/shop", "ce-"), "").batch([row(1), bad], 10_000)
    assert [(f.message.position, f.at_once) for f in failed] == [(2, True)]


async def test_the_library_still_has_the_transport_that_batches_are_written_to(nats_url: str) -> None:
    """Fails where a new version of nats-py moves it: then batches go by the slow public way. See wire.py."""
    client = await nats.connect(nats_url)
    try:
        assert wire.transport_of(client) is not None, "nats-py has changed: adapt fencepost/brokers/nats/wire.py"
        assert not wire.is_encrypted(client)
        assert wire._writer(client) is not None, "nats-py has changed: adapt fencepost/brokers/nats/wire.py"
    finally:
        await client.close()


async def test_without_that_transport_batches_go_the_public_way(
    nats_url: str, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "transport_of", lambda client: None)
    place = Place(nats_url, fresh_name)
    batch = [
        *rows(150),
        row(200, payload=None, headers={"name": "a: b", "\u0061": "\u00e9"}),
        row(201, payload=b"\r\n"),
    ]
    try:
        async with place.handoff() as handoff:
            await handoff.publish(batch)
            await handoff.publish([row(300)])
        assert await place.payloads() == [*payloads(batch[:-2]), b"", b"\r\n", b"payload 300"]
        tombstone = (await place.published())[150]
        assert (tombstone.headers["name"], tombstone.headers["a"]) == ("a: b", "\u00e9")
        assert tombstone.headers["fencepost-tombstone"] == "true"
    finally:
        await place.drop()


def test_a_stream_that_doubles_has_its_remedy() -> None:
    """Also where no server can be brought to do it; test_nats_alone has the real one."""
    error = Refusal(400, 10176, "no").as_error("asking")
    assert isinstance(error, RetryError)
    assert "restart the server" in error.remedy
