"""Where the servers are and how to get in: from the URL and the settings to what the client library is given."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from fencepost.brokers.mqtt.settings import Settings
from fencepost.errors import ConfigurationError
from fencepost.plugins import check_password

_PORTS = {"mqtt": 1883, "mqtts": 8883}
_EXAMPLE = "write mqtt://user:password@host:1883, several hosts with commas between them"


@dataclass(frozen=True, slots=True)
class Address:
    """``servers`` are (host, port) of the nodes of one cluster; they are tried in this order."""

    servers: tuple[tuple[str, int], ...]
    user: str
    password: str = field(repr=False)
    tls: bool

    @classmethod
    def of(cls, url: str) -> Address:
        """The address in a URL. Raises ConfigurationError."""
        check_password(url)
        scheme, _, rest = url.partition("://")
        if scheme not in _PORTS:
            raise ConfigurationError("the URL is not one of an MQTT server", remedy=_EXAMPLE)
        place, _, query = rest.partition("?")
        if query:
            raise ConfigurationError(
                f"the URL of an MQTT server has no options, and this one has {query.partition('=')[0]!r}",
                remedy="write it as a setting of its own, below url; docs/mqtt.md lists them",
            )
        authority, _, path = place.partition("/")
        if path:
            raise ConfigurationError(
                f"the URL of an MQTT server has no path, and this one has {path!r}",
                remedy='set topic = "PREFIX/{topic}" where that was meant to stand before each topic',
            )
        login, _, hosts = authority.rpartition("@")
        user, _, password = login.partition(":")
        servers = tuple(_server(host.strip(), _PORTS[scheme]) for host in hosts.split(","))
        return cls(servers, unquote(user), unquote(password), scheme == "mqtts")

    def __str__(self) -> str:
        return ", ".join(shown(server) for server in self.servers)


def shown(server: tuple[str, int]) -> str:
    """A server as people write it."""
    host, port = server
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Socket(ssl.SSLSocket):
    """The client library would leave a socket whose handshake fails to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def tls_context(address: Address, settings: Settings) -> ssl.SSLContext | None:
    """How to encrypt; None for not at all. Raises ConfigurationError for files that cannot be used."""
    if not (address.tls or settings.tls):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca or None)
        context.sslsocket_class = _Socket
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
        raise ConfigurationError(f"{text!r} is not the address of an MQTT server", remedy=_EXAMPLE)
    return host, given or port
