"""Where a DynamoDB is: dynamodb://REGION/NAMES?endpoint=URL, with what is set besides.

``NAMES`` is what the names of all tables begin with, before the configured prefix: an account has one name space for
each region. Credentials are never part of the address: they are found where every client of Amazon's finds them.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from fencepost.errors import ConfigurationError
from fencepost.plugins import name_of, suggestion

SHAPE = "dynamodb://REGION/NAMES?endpoint=URL"
BUCKETS = 8
"""How many partitions share the messages of an outbox, unless its address says another number."""

BUCKETS_MAX = 256
IDLE_S = 1.0
"""The longest pause between two looks at an idle outbox, unless its address says another one."""

_KEYS = ("buckets", "endpoint", "idle_s")
_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")
_NAMES = re.compile(r"[A-Za-z0-9_.-]{0,100}\Z")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """A region, or a server of one's own at ``endpoint``. ``names`` stands before the name of each table."""

    region: str
    endpoint: str | None = None
    names: str = ""
    buckets: int = BUCKETS
    idle_s: float = IDLE_S

    @property
    def place(self) -> str:
        """How errors name it."""
        return f"DynamoDB {self.endpoint or self.region}"

    @property
    def is_local(self) -> bool:
        """True for a server on this machine: an emulator, which takes any credentials."""
        host = urlsplit(self.endpoint or "").hostname or ""
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def table(self, prefix: str, name: str) -> str:
        """The name of a table. Raises ConfigurationError where DynamoDB would not take it."""
        full = f"{self.names}{prefix}{name}"
        if not _TABLE.match(full):
            raise ConfigurationError(
                f"{full!r} cannot be the name of a table", remedy="3 to 255 characters of A-Z a-z 0-9 _ . - are"
            )
        return full


def address_of(url: str) -> Address:
    """The address that a URL says. Raises ConfigurationError, which never shows what could be a secret."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ConfigurationError(
            "the URL of a DynamoDB has credentials in it",
            remedy="leave them out: they are found in the environment, in ~/.aws, or from the machine's role",
        )
    if name_of("database", url) != "dynamodb" or not _REGION.match(parts.netloc):
        raise ConfigurationError(f"{url!r} is not the URL of a DynamoDB", remedy=f"write {SHAPE}")
    names = unquote(parts.path.removeprefix("/"))
    if not _NAMES.match(names):
        raise ConfigurationError(
            f"{names!r} cannot stand before the names of tables", remedy="A-Z a-z 0-9 _ . - can, up to 100 of them"
        )
    given = _given(parts.query)
    return Address(parts.netloc, _endpoint(given), names, _buckets(given), _idle_s(given))


def _given(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    for name, _ in pairs:
        if name not in _KEYS:
            raise ConfigurationError(f"the URL of a DynamoDB has no {name!r}", remedy=suggestion(name, _KEYS))
    if len(dict(pairs)) < len(pairs):
        raise ConfigurationError("the URL of a DynamoDB says something twice", remedy="write each name once")
    return dict(pairs)


def _endpoint(given: Mapping[str, str]) -> str | None:
    text = given.get("endpoint")
    if text is None:
        return None
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise ConfigurationError(
            "endpoint is not the address of a server", remedy="write endpoint=http://host:port or https://host:port"
        )
    return text


def _buckets(given: Mapping[str, str]) -> int:
    text = given.get("buckets", str(BUCKETS))
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= BUCKETS_MAX or number & (number - 1):
        raise ConfigurationError(f"buckets={text}", remedy="it is 1, 2, 4, 8, ... 256")
    return number


def _idle_s(given: Mapping[str, str]) -> float:
    text = given.get("idle_s", str(IDLE_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.05 <= seconds <= 3600:
        raise ConfigurationError(f"idle_s={text}", remedy="it is a number of seconds from 0.05 to 3600")
    return seconds
