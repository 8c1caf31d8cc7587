"""Where the servers are and how to get in: from the URL and the settings to what the client library is given."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from yarl import URL

from fencepost.brokers.rabbitmq.settings import Settings
from fencepost.errors import ConfigurationError
from fencepost.plugins import check_password

_PORTS = {"amqp": 5672, "rabbitmq": 5672, "amqps": 5671}
_EXAMPLE = "write amqp://user:password@host:5672/vhost, several hosts with commas between them"


@dataclass(frozen=True, slots=True)
class Address:
    """``servers`` are (host, port) of the nodes of one cluster; they are tried in this order."""

    servers: tuple[tuple[str, int], ...]
    user: str
    password: str = field(repr=False)
    vhost: str
    tls: bool

    @classmethod
    def of(cls, url: str) -> Address:
        """The address in a URL. Raises ConfigurationError."""
        check_password(url)
        scheme, _, rest = url.partition("://")
        if scheme not in _PORTS:
            raise ConfigurationError("the URL is not one of RabbitMQ", remedy=_EXAMPLE)
        place, _, query = rest.partition("?")
        if query:
            raise ConfigurationError(
                f"the URL of RabbitMQ has no options, and this one has {query.partition('=')[0]!r}",
                remedy="write it as a setting of its own, below url; docs/rabbitmq.md lists them",
            )
        login, _, hosts = place.partition("/")[0].rpartition("@")
        user, _, password = login.partition(":")
        servers = tuple(_server(host.strip(), _PORTS[scheme]) for host in hosts.split(","))
        vhost = unquote(place.partition("/")[2]) or "/"
        return cls(servers, unquote(user), unquote(password), vhost, scheme == "amqps")

    def urls(self, settings: Settings) -> Iterator[URL]:
        """What the client library is given, for each server."""
        user, password = settings.user or self.user or "guest", settings.password or self.password or "guest"
        scheme = "amqps" if self.tls or settings.tls else "amqp"
        login = f"{quote(user, safe='')}:{quote(password, safe='')}"
        terms = f"heartbeat={settings.heartbeat_s}&name=fencepost"
        for host, port in self.servers:
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            yield URL(f"{scheme}://{login}@{where}/{quote(self.vhost, safe='')}?{terms}", encoded=True)

    def __str__(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self.servers)


def tls_context(address: Address, settings: Settings) -> ssl.SSLContext | None:
    """How to encrypt; None for not at all. Raises ConfigurationError for files that cannot be used."""
    if not (address.tls or settings.tls):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca or None)
        if settings.tls_cert:
            context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:  # an unreadable file, or one that is not PEM
        raise ConfigurationError(f"the TLS files cannot be used: {error}", remedy="give PEM files") from error
    return context


def _server(text: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, given = parts.hostname, parts.port
    except ValueError:  # a port that is no number, or too large
        host, given = None, None
    if not host or given == 0:
        raise ConfigurationError(f"{text!r} is not the address of a RabbitMQ server", remedy=_EXAMPLE)
    return host, given or port
