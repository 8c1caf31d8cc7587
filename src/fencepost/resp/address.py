"""Where a Redis is, and how each connection to it is made.

``redis://[user:password@]host:port[/db]``, ``rediss://`` with TLS, ``redis+sentinel://host:port,host:port/name[/db]``
where Sentinel knows the primary called ``name``. A node of a cluster is asked which node has the keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from redis.asyncio.connection import Connection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff

from fencepost.errors import ConfigurationError, Unavailable
from fencepost.servers import check_password, plain, split
from fencepost.words import suggestion

_FORMS = "write redis://user@host:port/0, rediss:// for TLS, or redis+sentinel://host:port,host:port/name"
_SCHEMES = {"redis": "redis", "redis+cluster": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}
_SENTINELS = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}

# What redis-py takes of that which can be written in a URL, less what is set here.
_OPTIONS = (
    *("client_name", "health_check_interval", "password", "socket_keepalive", "ssl_ca_certs", "ssl_ca_path"),
    *("ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_ciphers", "ssl_keyfile", "ssl_password", "username"),
)
_UNKNOWN = re.compile(r"got an unexpected keyword argument '(.+)'\Z")

Node = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class Address:
    """One server, or what leads to it. ``place`` names it in errors, without a password."""

    place: str
    arguments: Mapping[str, Any]
    sentinels: tuple[Node, ...] = ()
    service: str = ""
    clustered: bool = False
    """The URL says that it is a node of a cluster. Others are asked."""

    @property
    def host(self) -> str:
        """The host in the URL."""
        return str(self.arguments.get("host", "localhost"))

    async def connection(self, timeout_s: float, node: Node | None = None) -> Connection:
        """A connection that is not yet open, to the primary or to ``node``. Raises what redis-py raises."""
        arguments = dict(self.arguments)
        kind: type[Connection] = arguments.pop("connection_class", Connection)
        if self.sentinels:
            node = await self._primary(timeout_s)
        if node is not None:
            arguments["host"], arguments["port"] = node
        return kind(**arguments, retry=Retry(NoBackoff(), 0), socket_connect_timeout=timeout_s)

    async def _primary(self, timeout_s: float) -> Node:
        sentinel = Sentinel(list(self.sentinels), socket_timeout=timeout_s)  # type: ignore[no-untyped-call]
        try:
            host, port = await sentinel.discover_master(self.service)
        except MasterNotFoundError as error:
            said = f"{self.place}: no Sentinel knows a primary {self.service!r} that can be reached"
            raise Unavailable(said, remedy="check the name, and that the Sentinels run") from error
        finally:
            for each in sentinel.sentinels:
                await each.aclose()
        return str(host), int(port)


def address_of(url: str, client_name: str = "fencepost") -> Address:
    """The address in a URL. Raises ConfigurationError where it is not one of a Redis."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in {*_SCHEMES, *_SENTINELS}:
        raise ConfigurationError("not the URL of a Redis", remedy=_FORMS)
    check_password(url)
    if scheme in _SENTINELS:
        return _through_sentinel(_SENTINELS[scheme], rest, client_name)
    parts = urlsplit(f"{_SCHEMES[scheme]}://{rest}")
    _check_port(parts)
    host = parts.netloc.rpartition("@")[2] or "localhost"
    if scheme == "redis+cluster" and not parts.hostname:
        raise ConfigurationError("the URL names no node of the cluster", remedy="write redis+cluster://host:port")
    _check_database(parts.path.strip("/"))
    place = f"Redis {host}{parts.path.rstrip('/')}"
    return Address(place, _arguments(parts.geturl(), client_name), clustered=scheme == "redis+cluster")


def _through_sentinel(scheme: str, rest: str, client_name: str) -> Address:
    authority, _, path = rest.partition("?")[0].partition("/")
    user, at, hosts = authority.rpartition("@")
    service, _, database = path.strip("/").partition("/")
    _check_database(database)
    if not service or not hosts:
        raise ConfigurationError("a Sentinel URL without the name of the primary", remedy=_FORMS)
    sentinels = tuple(_node(each) for each in hosts.split(","))
    query = rest.partition("?")[2]
    url = f"{scheme}://{user}{at}localhost/{database}" + (f"?{query}" if query else "")
    place = f"Redis {service!r} of the Sentinels {hosts}"
    return Address(place, _arguments(url, client_name), sentinels, service)


def _node(text: str) -> Node:
    parts = split(f"//{text}")
    if parts is None or not parts.hostname:
        raise ConfigurationError(f"{plain(text)!r} is not host:port", remedy=_FORMS)
    return parts.hostname, parts.port or 26379


def _check_port(parts: SplitResult) -> None:
    """What stands there may be a password whose host is missing: it is not repeated."""
    try:
        usable = parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError("what stands behind the host in the URL is no port", remedy=_FORMS)


def _check_database(text: str) -> None:
    if text and not text.isdigit():
        raise ConfigurationError(f"{text!r} is not a database of a Redis: they are numbers", remedy=_FORMS)


def _arguments(url: str, client_name: str) -> dict[str, Any]:
    """redis-py's arguments: no retries, no decoding, no deadline of its own."""
    parts = urlsplit(url)
    ours = {"decode_responses", "protocol", "retry_on_timeout", "socket_timeout", "socket_connect_timeout"}
    query = urlencode([(k, v) for k, v in parse_qsl(parts.query) if k not in ours])
    try:
        arguments = dict(parse_url(parts._replace(query=query).geturl()))
        arguments |= {"socket_timeout": None, "decode_responses": False, "protocol": 2}
        arguments.setdefault("client_name", client_name)
        kind: Any = arguments.get("connection_class", Connection)
        kind(**{k: v for k, v in arguments.items() if k != "connection_class"})  # unknown names show here
    except (TypeError, ValueError) as error:
        said = str(error).rpartition("__init__() ")[2]
        unknown = _UNKNOWN.match(said)
        remedy = suggestion(unknown[1], _OPTIONS) if unknown and unknown[1] not in _OPTIONS else _FORMS
        raise ConfigurationError(f"this URL of a Redis cannot be used: {said}", remedy=remedy) from error
    return arguments
