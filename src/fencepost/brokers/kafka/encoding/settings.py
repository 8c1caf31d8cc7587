"""The settings of encoders: which topic has which, where the registry is, and what of both cannot be used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from fencepost.errors import ConfigurationError
from fencepost.servers import ESCAPES
from fencepost.settings import problems
from fencepost.words import as_written, suggestion

PREFIX = "schema.registry."
"""What follows is an option of confluent_kafka's SchemaRegistryClient."""

NAMES = ("encoders", "schema_files", "subject_strategy", "unknown_fields")
"""``encoders``: a table from patterns of topics to encoders, of which the first that matches decides.
``schema_files``: a table from topics to files with schemas, which are registered. ``subject_strategy``: under which
subject a schema stands (default "topic"). ``unknown_fields``: what becomes of fields that the schema has not (default
"refuse")."""

NONE = "none"
KINDS = ("avro", "protobuf", "json-schema", NONE)
STRATEGIES = ("topic", "record", "topic-record")
UNKNOWN_FIELDS = ("refuse", "drop")

LATEST_S = "cache.latest.ttl.sec"
_LATEST_DEFAULT_S = 60.0
_TIMEOUT_DEFAULT_S = 5.0

_TABLES = ("encoders", "schema_files")
_PATTERN = re.compile(r"[A-Za-z0-9._*-]{1,249}\Z")
_TEXTS = {
    "basic.auth.user.info",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.credentials.source",
    "bearer.auth.identity.pool.id",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.logical.cluster",
    "bearer.auth.scope",
    "bearer.auth.token",
    "proxy",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "url",
}
_NUMBERS = {"cache.capacity", LATEST_S, "max.retries", "retries.max.wait.ms", "retries.wait.ms", "timeout"}
_SECRET = re.compile(r"password|secret|token|user\.info")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSettings:
    """Checked settings. ``registry`` are the options of its client; ``place`` is its address without any secret."""

    patterns: Sequence[tuple[str, str]]
    registry: Mapping[str, Any] = field(repr=False)
    secrets: Sequence[str] = field(repr=False)
    place: str
    files: Mapping[str, Path]
    strategy: str
    drops_unknown: bool
    latest_s: float

    def kind_of(self, topic: str) -> str:
        """The encoder of a topic, NONE where its payloads go as they are."""
        return next((kind for pattern, kind in self.patterns if _matches(pattern, topic)), NONE)

    @property
    def topics(self) -> list[str]:
        """The topics that are named without a *, and have an encoder."""
        names = [pattern for pattern, _ in self.patterns if "*" not in pattern]
        return [name for name in dict.fromkeys(names) if self.kind_of(name) != NONE]

    def subject(self, topic: str, record: str) -> str:
        """The subject of a message's schema; ``record`` is the message's type."""
        return {"topic": f"{topic}-value", "record": record, "topic-record": f"{topic}-{record}"}[self.strategy]

    def hide(self, text: str) -> str:
        """The text without any secret of these settings."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def is_ours(name: str) -> bool:
    """Whether a setting, nested tables joined by dots, is about encoders."""
    return name.startswith(PREFIX) or name.partition(".")[0] in NAMES


def wrong(given: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the settings that are ours, by name. No error repeats a secret."""
    errors = problems((name, partial(_check, name, value)) for name, value in given.items())
    return errors or problems((name, partial(_together, given)) for name in [*given][:1])


def parse(given: Mapping[str, object], timeout_s: float) -> EncoderSettings | None:
    """The settings, which ``wrong`` has found nothing in; None where no topic has an encoder."""
    patterns = _table(given, "encoders")
    if all(kind == NONE for kind in patterns.values()):
        return None
    options: dict[str, Any] = {
        "timeout": min(timeout_s, _TIMEOUT_DEFAULT_S),
        "max.retries": 0,  # the relay tries again by itself, and meanwhile sends the other topics
        **{name.removeprefix(PREFIX): value for name, value in given.items() if name.startswith(PREFIX)},
    }
    return EncoderSettings(
        patterns=list(patterns.items()),
        latest_s=float(options.pop(LATEST_S, _LATEST_DEFAULT_S)),
        registry=options,
        secrets=_secrets(options),
        place=", ".join(_place(url) for url in str(options["url"]).split(",")),
        files={topic: Path(path) for topic, path in _table(given, "schema_files").items()},
        strategy=str(given.get("subject_strategy", STRATEGIES[0])),
        drops_unknown=given.get("unknown_fields", UNKNOWN_FIELDS[0]) == "drop",
    )


def _table(given: Mapping[str, object], table: str) -> dict[str, str]:
    return {name.removeprefix(f"{table}."): str(value) for name, value in given.items() if name.startswith(f"{table}.")}


def _matches(pattern: str, topic: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), topic) is not None


# -- what cannot be used -----------------------------------------------------------------------------------------------


def _check(name: str, value: object) -> None:
    if name.startswith(PREFIX):
        _check_option(name, value)
    elif name in _TABLES:
        raise ConfigurationError(f"{name} is not a table", remedy=f'write [broker.{name}] and below it "TOPIC" = "..."')
    elif name.startswith("encoders."):
        _check_pattern(name)
        _check_choice(name, value, KINDS)
    elif name.startswith("schema_files."):
        if not isinstance(value, str) or not Path(value).is_file():
            raise ConfigurationError(f"{name}: there is no file {value!r}", remedy="name the file with the schema")
    elif name in ("subject_strategy", "unknown_fields"):
        _check_choice(name, value, STRATEGIES if name == "subject_strategy" else UNKNOWN_FIELDS)
    else:
        raise ConfigurationError(f"{name.partition('.')[0]} is no table", remedy="write one text")


def _check_pattern(name: str) -> None:
    pattern = name.removeprefix("encoders.")
    if not _PATTERN.match(pattern):
        raise ConfigurationError(
            f"the encoder of {pattern!r}: no topic is called so",
            remedy="1 to 249 characters of A-Z a-z 0-9 . _ - are possible, and * for any of them",
        )


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ConfigurationError(f"{name} is {as_written(value)}", remedy=suggestion(str(value), choices))


def _check_option(name: str, value: object) -> None:
    option = name.removeprefix(PREFIX)
    if option not in _TEXTS | _NUMBERS:
        known = [f"{PREFIX}{known}" for known in _TEXTS | _NUMBERS]
        raise ConfigurationError(f"the schema registry has no setting {name!r}", remedy=suggestion(name, known))
    if option in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
        raise ConfigurationError(f"{name} is not a number from 0", remedy="write one without quotes")
    if option in _TEXTS and not isinstance(value, str) and (option, value) != ("ssl.ca.location", False):
        raise ConfigurationError(f"{name} is not a text", remedy="write it in quotes")
    if option == "url" and not all(_is_address(url) for url in str(value).split(",")):
        raise ConfigurationError(
            f"{name} is not the address of a schema registry",
            remedy=f"write http://host:8081, or several with a comma between them; {ESCAPES}",
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url.strip())
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _together(given: Mapping[str, object]) -> None:
    encoders, files = _table(given, "encoders"), _table(given, "schema_files")
    used = [name for name in given if name.partition(".")[0] != "encoders"]
    if not encoders:
        raise ConfigurationError(
            f"{used[0]} is of no use: no topic has an encoder", remedy='write [broker.encoders] and "TOPIC" = "avro"'
        )
    if any(kind != NONE for kind in encoders.values()) and f"{PREFIX}url" not in given:
        raise ConfigurationError(
            "encoders need a schema registry", remedy=f'write "{PREFIX}url" = "http://host:8081" in [broker]'
        )
    if files and given.get("subject_strategy", "topic") != "topic":
        raise ConfigurationError(
            'schema_files go with subject_strategy = "topic" only', remedy="register these schemas in another way"
        )


# -- what must not be shown --------------------------------------------------------------------------------------------


def _place(url: str) -> str:
    """An address without user and password."""
    parts = urlsplit(url.strip())
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _secrets(options: Mapping[str, Any]) -> list[str]:
    found = [str(value) for name, value in options.items() if _SECRET.search(name)]
    found += [str(options.get("basic.auth.user.info", "")).partition(":")[2]]
    for url in (*str(options["url"]).split(","), str(options.get("proxy", ""))):
        password = urlsplit(url.strip()).password or ""
        found += [password, unquote(password)]
    return [secret for secret in found if secret]
