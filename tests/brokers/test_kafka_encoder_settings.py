"""Settings of encoders: what is refused and why, that no secret shows; and what a registry's answers mean."""

import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

from fencepost.brokers.kafka import broker, refused
from fencepost.brokers.kafka.encoding import faults
from fencepost.brokers.kafka.encoding.settings import NONE
from fencepost.brokers.kafka.settings import parse
from fencepost.config import masked
from fencepost.config.reader import load
from fencepost.envelope import Format
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    SchemaMissing,
    Unavailable,
)
from fencepost.ports import BrokerOptions
from tests.brokers.kafka_kit import options

URL = "kafka://127.0.0.1:9092"
REGISTRY = {"schema.registry.url": "http://127.0.0.1:8081"}
SECRET = "correct-horse"


def test_without_an_encoder_everything_is_as_it_was() -> None:
    assert parse(options(URL)).encoders is None
    assert parse(options(URL, {"encoders": {"*": "none"}})).encoders is None


def test_the_first_pattern_that_matches_decides() -> None:
    """Written as TOML reads it: a topic with dots and no quotes is a table in a table."""
    given = {"encoders": {"a.*": "none", "b": {"c": "protobuf"}, "*.x": "avro", "b*": "json-schema"}, **REGISTRY}
    encoders = parse(options(URL, given)).encoders
    assert encoders is not None
    kinds = {topic: encoders.kind_of(topic) for topic in ("a.x", "b.c", "c.x", "bb", "ax", "c.xx")}
    assert kinds == {"a.x": NONE, "b.c": "protobuf", "c.x": "avro", "bb": "json-schema", "ax": NONE, "c.xx": NONE}
    assert encoders.topics == ["b.c"]
    assert (encoders.latest_s, encoders.registry["timeout"], encoders.registry["max.retries"]) == (60.0, 5.0, 0)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("topic", "orders-value"), ("record", "shop.Order"), ("topic-record", "orders-shop.Order")],
)
def test_the_subject_of_a_message(strategy: str, subject: str) -> None:
    encoders = parse(options(URL, {"encoders": {"*": "avro"}, "subject_strategy": strategy, **REGISTRY})).encoders
    assert encoders is not None
    assert encoders.subject("orders", "shop.Order") == subject


@pytest.mark.parametrize(
    ("given", "name", "why"),
    [
        ({"encoders": {"*": "avor"}}, "encoders.*", "did you mean 'avro'"),
        ({"encoders": {"a b": "avro"}}, "encoders.a b", "no topic is called so"),
        ({"encoders": "avro"}, "encoders", "is not a table"),
        ({"encoders": {"*": "avro"}}, "encoders.*", "need a schema registry"),
        (REGISTRY, "schema.registry.url", "no topic has an encoder"),
        ({"unknown_fields": "ignore"}, "unknown_fields", "known are drop, refuse"),
        ({"subject_strategy": {"x": "topic"}}, "subject_strategy.x", "is no table"),
        ({"subject_strategy": "topics"}, "subject_strategy", "did you mean 'topic'"),
        ({"schema.registry.urls": "x"}, "schema.registry.urls", "did you mean 'schema.registry.url'"),
        ({"schema.registry.url": "registry:8081"}, "schema.registry.url", "http://host:8081"),
        ({"schema.registry.url": "http://a,ftp://b"}, "schema.registry.url", "http://host:8081"),
        ({"schema.registry.url": 5}, "schema.registry.url", "is not a text"),
        ({"schema.registry.timeout": "5"}, "schema.registry.timeout", "not a number from 0"),
        ({"schema.registry.max.retries": -1}, "schema.registry.max.retries", "not a number from 0"),
        ({"schema_files": {"a": "/nowhere"}}, "schema_files.a", "there is no file '/nowhere'"),
    ],
)
def test_what_is_refused_and_why(given: dict[str, object], name: str, why: str) -> None:
    errors = refused(URL, given)
    assert list(errors) == [name]
    assert why in str(errors[name])
    with pytest.raises(ConfigurationError, match=why.partition("(")[0]):
        broker(options(URL, given))


def test_schema_files_go_with_topics(tmp_path: Path) -> None:
    (tmp_path / "a.avsc").write_text('"string"')
    files = {"schema_files": {"a": str(tmp_path / "a.avsc")}}
    given = {"encoders": {"a": "avro"}, **REGISTRY, **files}
    assert not refused(URL, given)
    assert refused(URL, {**given, "subject_strategy": "record"})


def test_the_structured_format_is_refused_with_the_reason() -> None:
    made = BrokerOptions(
        url=URL, source="/", settings={"encoders": {"*": "avro"}, **REGISTRY}, form=Format.CLOUDEVENTS_STRUCTURED
    )
    with pytest.raises(ConfigurationError, match="that body is JSON"):
        broker(made)


@pytest.mark.parametrize(
    "given",
    [
        {"schema.registry.basic.auth.user.info": SECRET},
        {"schema.registry.ssl.key.password": SECRET},
        {"schema.registry.bearer.auth.credentials.source": SECRET, "schema.registry.bearer.auth.token": SECRET},
    ],
)
def test_what_the_client_does_not_take_is_told_without_secrets(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="client does not take the settings") as caught:
        broker(options(URL, {"encoders": {"*": "avro"}, **REGISTRY, **given}))
    assert SECRET not in str(caught.value)


def test_no_secret_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(
        '[relay]\nname = "shop"\n[database]\nurl = "sqlite:///shop.db"\n[broker]\nurl = "kafka://a"\n'
        f'"schema.registry.url" = "https://user:{SECRET}@registry"\n'
        f'"schema.registry.basic.auth.user.info" = "user:{SECRET}"\n[broker.encoders]\n"*" = "avro"\n'
    )
    assert SECRET not in repr(masked(load(file, {})))
    encoders = parse(options(URL, load(file, {}).broker.settings)).encoders
    assert encoders is not None
    assert SECRET not in repr(encoders)
    assert encoders.place == "https://registry"
    assert encoders.hide(f"a {SECRET} b") == "a *** b"


def test_a_library_that_is_missing_names_the_extra() -> None:
    """In a process of its own: what is imported once is there."""
    given = {"encoders": {"*": "avro"}, **REGISTRY}
    program = f"""
import sys
sys.modules["fastavro"] = None
from fencepost.brokers.kafka import broker
from fencepost.ports import BrokerOptions
broker(BrokerOptions(url={URL!r}, source="/"))
try:
    broker(BrokerOptions(url={URL!r}, source="/", settings={given!r}))
except Exception as error:
    print(type(error).__name__, error)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "MissingExtra" in told
    assert "'fastavro'" in told
    assert "fencepost[kafka-schemas]" in told


def http_error(name: str, *arguments: Any) -> Exception:
    (kind, *_) = faults._of_http(name)
    made: Exception = kind(*arguments)
    return made


def untrusted() -> Exception:
    error = http_error("ConnectError", "[SSL] it failed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SchemaRegistryError(401, 40101, "who?"), AccessDenied),
        (SchemaRegistryError(403, 40301, "no"), AccessDenied),
        (SchemaRegistryError(404, 40401, "no subject"), SchemaMissing),
        (SchemaRegistryError(404, 40402, "no version"), SchemaMissing),
        (SchemaRegistryError(404, -1, "Not Found"), ConfigurationError),
        (SchemaRegistryError(409, 409, "incompatible"), ConfigurationError),
        (SchemaRegistryError(422, 42201, "invalid"), ConfigurationError),
        (SchemaRegistryError(429, 429, "slowly"), Unavailable),
        (SchemaRegistryError(500, 50001, "store"), Unavailable),
        (SchemaRegistryError(503, -1, "starting"), Unavailable),
        (OAuthTokenError("no token"), Unavailable),
        (http_error("ConnectError", "refused"), Unavailable),
        (http_error("ReadTimeout", "slow"), DeadlineExceeded),
        (http_error("InvalidURL", "what?"), ConfigurationError),
        (untrusted(), AccessDenied),
        (ValueError("no JSON"), ConfigurationError),
        (RuntimeError("the client has been closed"), ConnectionLost),
    ],
)
def test_the_family_of_every_answer(error: Exception, kind: type[FencepostError]) -> None:
    assert isinstance(error, faults.REGISTRY_ERRORS)
    found = faults.fault(error, "looking", "http://registry", str(error))
    assert type(found) is kind
    assert "http://registry" in found.what
