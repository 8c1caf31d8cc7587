"""The sections of a configuration as frozen records. Each field says its default and its limits, once."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fencepost.envelope import Format
from fencepost.routes import MAIN

REQUIRED: Any = dataclasses.MISSING

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")
_HEADER = re.compile(r"[A-Za-z0-9_.-]{1,127}\Z")
BROKER_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,19}\Z")
TABLE_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}\Z")
_TOPICS = re.compile(r"[A-Za-z0-9._/*-]{1,249}\Z")
_PREFIX = re.compile(r"[A-Za-z_{][A-Za-z0-9_{}:.-]{0,79}\Z")  # of keys, as in Redis, too
_URI_REFERENCE = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]{1,255}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a value must be. ``kind`` is bool, int, float or str; ``pattern`` is explained by ``meant``."""

    kind: type
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    meant: str = ""
    plugin: str = ""
    """The kind of plug-in that the value, a URL, names."""
    or_number: bool = False
    """A text that may be written as a whole number, too."""
    table: bool = False
    """A table of texts under names of the user's; ``false`` stands for the empty text."""


def key(default: Any, kind: type, **limits: Any) -> Any:
    """A field with its rule."""
    return field(default=default, metadata={"rule": Rule(kind=kind, **limits)})


def _table(**limits: Any) -> Any:
    return field(default_factory=dict, metadata={"rule": Rule(kind=str, table=True, **limits)})


_entry = key  # in a section that has a key of this name

BROKER_NAME_MEANT = f"1 to 20 characters of a-z 0-9 -, a letter or digit first, and not {MAIN}"
TABLE_PREFIX_MEANT = "a letter or _ and then up to 39 letters, digits or _"
_KEY_PREFIX = {"pattern": _PREFIX, "meant": f"{TABLE_PREFIX_MEANT}; in Redis also {{ }} : . - and up to 79"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayConfig:
    """``[relay]``. An empty ``source`` stands for "/" and the name."""

    name: str = key(REQUIRED, str, pattern=NAME, meant="1 to 63 characters of a-z 0-9 -, a letter or digit first")
    source: str = key(
        "", str, pattern=_URI_REFERENCE, meant="a URI reference such as /orders or https://shop.example/orders"
    )
    batch: int = key(2000, int, low=1, high=100_000)
    batch_bytes: int = key(4_000_000, int, low=1, high=1_000_000_000)
    max_attempts: int = key(10, int, low=1, high=1_000_000)
    on_poison: str = key("park", str, choices=("park", "block"))
    delivery: str = key("auto", str, choices=("auto", "exactly-once", "deduplicated", "at-least-once"))
    retry_base_s: float = key(0.1, float, low=0.001, high=3600)
    retry_cap_s: float = key(30.0, float, low=0.001, high=86_400)
    poll_s: float = key(5.0, float, low=0.01, high=3600)
    route: str | None = key(None, str, pattern=_FUNCTION, meant="a function of yours, for example shop.routing:route")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseConfig:
    """``[database]``: where the outbox is. An absent ``schema`` is the connection's default.

    ``retention_s`` is for settled rows that stay; where it is absent they stay for ever.
    """

    url: str = key(REQUIRED, str, plugin="database")
    schema: str | None = key(None, str)
    prefix: str = key("fencepost_", str, **_KEY_PREFIX)
    timeout_s: float = key(30.0, float, low=0.1, high=3600)
    settle: Literal["delete", "mark"] = key("delete", str, choices=("delete", "mark"))
    retention_s: float | None = key(None, float, low=0.0, high=10 * 366 * 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """``[broker]``: where messages go. ``settings`` are the plug-in's own keys, nested tables joined by dots.

    An absent ``format`` is the plug-in's usual one. A header that is left out has an empty name in ``header_map``.
    """

    url: str = key(REQUIRED, str, plugin="broker")
    create: bool = key(True, bool)
    timeout_s: float = key(30.0, float, low=0.1, high=3600)
    format: str | None = key(None, str, choices=tuple(form.value for form in Format))
    header_map: Mapping[str, str] = _table(pattern=_HEADER, meant="a header's name, or false to leave the header out")
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteConfig:
    """``[routes.NAME]``: where the messages of some topics go. An absent ``topic`` is the message's own."""

    topics: str = key(REQUIRED, str, pattern=_TOPICS, meant="a topic, in which * stands for any characters")
    broker: str = key(MAIN, str)
    topic: str | None = key(None, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseConfig:
    """``[lease]``: where leases are kept. An absent ``url`` is the database's."""

    url: str | None = key(None, str, plugin="election")
    ttl_s: float = key(5.0, float, low=0.5, high=3600)
    timeout_s: float = key(5.0, float, low=0.1, high=3600)
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingConfig:
    """``[existing]``: a table of somebody else that is the outbox. ``fencepost.existing.ExistingTable`` has the same
    fields; without ``table`` there is none.
    """

    table: str | None = _entry(None, str)
    position: str | None = _entry(None, str)
    topic: str | None = _entry(None, str)
    payload: str | None = _entry(None, str)
    id: str = _entry("id", str)
    key: str | None = _entry(None, str)
    version: str | None = _entry(None, str)
    type: str = _entry("message", str)
    headers: str | None = _entry(None, str)
    content_type: str = _entry("application/json", str)
    occurred_at: str | None = _entry(None, str)
    state: str | None = _entry(None, str)
    pending: str | None = _entry(None, str, or_number=True)
    in_doubt: str | None = _entry(None, str, or_number=True)
    settled: str | None = _entry(None, str, or_number=True)
    parked: str | None = _entry(None, str, or_number=True)
    settled_at: str | None = _entry(None, str)
    attempts: str | None = _entry(None, str)
    last_error: str | None = _entry(None, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """``[log]``. ``format`` "auto" is text on a terminal and JSON lines elsewhere."""

    format: str = key("auto", str, choices=("auto", "text", "json"))
    level: str = key("info", str, choices=("debug", "info", "warning", "error"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A whole configuration. ``file`` is where it was read; where there is none, ``origin`` says it in words.

    ``brokers`` are those besides the main one, ``routes`` say in their order what goes to which of them.
    ``places`` says of each section's URL where it was written ("fencepost.toml line 6").
    """

    relay: RelayConfig
    database: DatabaseConfig
    broker: BrokerConfig
    lease: LeaseConfig = LeaseConfig()
    existing: ExistingConfig = ExistingConfig()
    log: LogConfig = LogConfig()
    brokers: Mapping[str, BrokerConfig] = field(default_factory=dict)
    routes: Mapping[str, RouteConfig] = field(default_factory=dict)
    file: Path | None = None
    origin: str = "the environment"
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def source(self) -> str:
        """The CloudEvents source."""
        return self.relay.source or f"/{self.relay.name}"

    @property
    def lease_url(self) -> str:
        """Where leases are kept."""
        return self.lease.url or self.database.url


SECTIONS: Mapping[str, type] = {
    "relay": RelayConfig,
    "database": DatabaseConfig,
    "broker": BrokerConfig,
    "lease": LeaseConfig,
    "existing": ExistingConfig,
    "log": LogConfig,
}


NAMED: Mapping[str, type] = {"brokers": BrokerConfig, "routes": RouteConfig}
"""Sections of which there may be several: ``[brokers.NAME]``."""


def record_of(section: str) -> type | None:
    """The record of a section, "brokers.archive" among them; None where there is no such section."""
    family, dot, name = section.partition(".")
    if not dot:
        return SECTIONS.get(section)
    return NAMED.get(family) if BROKER_NAME.match(name) and name != MAIN else None


def rules(section: str) -> dict[str, Rule]:
    """The keys of a section and what each must be."""
    return {f.name: f.metadata["rule"] for f in _fields(section) if "rule" in f.metadata}


def required(section: str) -> list[str]:
    """The keys without which a section cannot be."""
    return [
        f.name
        for f in _fields(section)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]


def has_settings(section: str) -> bool:
    """True where further keys belong to the section's plug-in."""
    return any(f.name == "settings" for f in _fields(section))


def default_of(section: str, key: str) -> Any:
    """The default of a key that has one."""
    found = next(f for f in _fields(section) if f.name == key)
    return found.default if found.default_factory is dataclasses.MISSING else found.default_factory()


def _fields(section: str) -> tuple[dataclasses.Field[Any], ...]:
    record = record_of(section)
    return dataclasses.fields(record) if record else ()
