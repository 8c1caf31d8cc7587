"""Where a service of Amazon's is: SERVICE://REGION/?endpoint=URL; a DynamoDB: dynamodb://REGION/NAMES?endpoint=URL.

``NAMES`` is what the names of all tables begin with, before the configured prefix: an account has one name space for
each region. Credentials are never part of the address: they are found where every client of Amazon's finds them.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from fencepost.errors import ConfigurationError
from fencepost.plugins import name_of
from fencepost.servers import split
from fencepost.words import suggestion

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


@dataclass(frozen=True)
class Server:
    """A service in a region, or a server of one's own at ``endpoint``."""

    service: ClassVar[str]
    """The library's name of it, which is the scheme of the URL."""
    title: ClassVar[str]
    """How people call it."""
    one: ClassVar[str]
    """The same with its article."""

    region: str
    endpoint: str | None = None

    @property
    def place(self) -> str:
        """How errors name it."""
        return f"{self.title} {self.endpoint or self.region}"

    @property
    def is_local(self) -> bool:
        """True for a server on this machine: an emulator, which takes any credentials."""
        host = urlsplit(self.endpoint or "").hostname or ""
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True)
class Address(Server):
    """A DynamoDB. ``names`` stands before the name of each table."""

    service = "dynamodb"
    title = "DynamoDB"
    one = "a DynamoDB"

    names: str = ""
    buckets: int = BUCKETS
    idle_s: float = IDLE_S

    def table(self, prefix: str, name: str) -> str:
        """The name of a table. Raises ConfigurationError where DynamoDB would not take it."""
        full = f"{self.names}{prefix}{name}"
        if not _TABLE.match(full):
            raise ConfigurationError(
                f"{full!r} cannot be the name of a table", remedy="3 to 255 characters of A-Z a-z 0-9 _ . - are"
            )
        return full


@dataclass(frozen=True)
class Sqs(Server):
    """The queues of a region."""

    service = "sqs"
    title = "SQS"
    one = "an SQS"


@dataclass(frozen=True)
class Sns(Server):
    """The topics of a region."""

    service = "sns"
    title = "SNS"
    one = "an SNS"


T = TypeVar("T", bound=Server)


def server_of(kind: type[T], url: str) -> T:
    """The server that a URL such as sqs://REGION/?endpoint=URL says. Raises ConfigurationError, as ``address_of``."""
    parts = _split(kind, "broker", url, f"{kind.service}://REGION/?endpoint=URL")
    if parts.path not in {"", "/"}:
        raise ConfigurationError(
            f"the URL of {kind.one} has no path, and this one has {parts.path!r}",
            remedy=f"write {kind.service}://REGION/?endpoint=URL",
        )
    return kind(parts.netloc, _endpoint(_given(parts.query, ("endpoint",), kind.one)))


def address_of(url: str) -> Address:
    """The address that a URL says. Raises ConfigurationError, which never shows what could be a secret."""
    parts = _split(Address, "database", url, SHAPE)
    names = unquote(parts.path.removeprefix("/"))
    if not _NAMES.match(names):
        raise ConfigurationError(
            f"{names!r} cannot stand before the names of tables", remedy="A-Z a-z 0-9 _ . - can, up to 100 of them"
        )
    given = _given(parts.query, _KEYS, Address.one)
    return Address(parts.netloc, _endpoint(given), names, _buckets(given), _idle_s(given))


def _split(kind: type[Server], port: str, url: str, shape: str) -> SplitResult:
    what = f"the URL of {kind.one}"
    if "@" in url.partition("?")[0]:
        raise ConfigurationError(
            f"{what} has credentials in it",
            remedy="leave them out: they are found in the environment, in ~/.aws, or from the machine's role",
        )
    parts = split(url)
    if name_of(port, url) != kind.service or parts is None or not _REGION.match(parts.netloc):
        raise ConfigurationError(f"{what} names no region", remedy=f"write {shape}")
    return parts


def _given(query: str, keys: Sequence[str], what: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    for name, _ in pairs:
        if name not in keys:
            raise ConfigurationError(f"the URL of {what} has no {name!r}", remedy=suggestion(name, keys))
    if len(dict(pairs)) < len(pairs):
        raise ConfigurationError(f"the URL of {what} says something twice", remedy="write each name once")
    return dict(pairs)


def _endpoint(given: Mapping[str, str]) -> str | None:
    text = given.get("endpoint")
    if text is None:
        return None
    parts = split(text)
    if parts is None or parts.scheme not in {"http", "https"} or "@" in parts.netloc:
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
