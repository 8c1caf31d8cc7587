"""Where a plug-in's servers are and how to get in: scheme://user:password@host1:port,host2:port/path, and TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self
from urllib.parse import SplitResult, unquote, urlsplit

from fencepost.errors import ConfigurationError
from fencepost.settings import Settings, path, setting


def split(url: str) -> SplitResult | None:
    """The parts of a URL; None where it has no host, or a port that cannot be one."""
    try:
        parts = urlsplit(url)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:  # a port that is no number, or too large; a bracket that is not closed
        return None


def check_password(url: str) -> None:
    """Raise ConfigurationError where a "/", "?" or "#" of a password ends the part of the URL that names the server.

    The text is not repeated: it has the rest of the password in it.
    """
    parts = urlsplit(f"//{url.partition('://')[2]}")
    if "@" in parts.path or ("@" in f"{parts.query}{parts.fragment}" and "@" not in parts.netloc):
        raise ConfigurationError(
            "an @ stands too far behind in the URL, as if the password had a / ? or # in it",
            remedy="write %2F for /, %3F for ?, %23 for #, %40 for @",
        )


@dataclass(frozen=True, slots=True)
class Servers:
    """The nodes of one cluster, (host, port) in the order in which they are tried. ``tls``: the scheme asks for it."""

    one: ClassVar[str]
    """How people call a server, with its article."""
    ports: ClassVar[Mapping[str, int]]
    """The usual port for each scheme; a scheme with an s at its end is encrypted."""
    example: ClassVar[str]
    page: ClassVar[str]
    """The page of the manual that lists the settings."""
    instead_of_path: ClassVar[str] = ""
    """What to do rather than writing a path, where a URL has none."""

    servers: tuple[tuple[str, int], ...]
    user: str
    password: str = field(repr=False)
    path: str
    tls: bool

    @classmethod
    def of(cls, url: str) -> Self:
        """The servers in a URL. Raises ConfigurationError, which repeats no password."""
        check_password(url)
        scheme, _, rest = url.partition("://")
        if scheme not in cls.ports:
            raise ConfigurationError(f"the URL is not that of {cls.one}", remedy=cls.example)
        place, _, query = rest.partition("?")
        if query:
            remedy = f"write it as a setting of its own, below url; {cls.page} lists them"
            raise cls._surplus("options", query.partition("=")[0], remedy)
        authority, _, path = place.partition("/")
        if path and cls.instead_of_path:
            raise cls._surplus("path", path, cls.instead_of_path)
        login, _, hosts = authority.rpartition("@")
        user, _, password = login.partition(":")
        servers = tuple(cls._server(host.strip(), cls.ports[scheme]) for host in hosts.split(","))
        return cls(servers, unquote(user), unquote(password), unquote(path), scheme.endswith("s"))

    @classmethod
    def _surplus(cls, part: str, found: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(f"the URL of {cls.one} has no {part}, and this one has {found!r}", remedy=remedy)

    @classmethod
    def _server(cls, text: str, port: int) -> tuple[str, int]:
        parts = split(f"//{text}")
        if parts is None or not parts.hostname:
            raise ConfigurationError(f"{text!r} is not the address of {cls.one}", remedy=cls.example)
        return parts.hostname, parts.port or port

    def __str__(self) -> str:
        return ", ".join(shown(server) for server in self.servers)


def shown(server: tuple[str, int]) -> str:
    """A server as people write it."""
    host, port = server
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings(Settings):
    """Settings of a plug-in whose connections may be encrypted, with the paths of files."""

    tls_ca: str = setting("", path)
    tls_cert: str = setting("", path)
    tls_key: str = setting("", path)

    @property
    def tls(self) -> bool:
        """True where a TLS setting is given."""
        return bool(self.tls_ca or self.tls_cert or self.tls_key)

    def unfit(self) -> Iterator[tuple[str, str | ConfigurationError]]:
        """See Settings."""
        if bool(self.tls_cert) != bool(self.tls_key):
            given = "tls_cert" if self.tls_cert else "tls_key"
            yield given, ConfigurationError("tls_cert and tls_key belong together", remedy="set both or none")

    def tls_context(
        self, wanted: bool, trusting: Callable[[], ssl.SSLContext] = ssl.create_default_context
    ) -> ssl.SSLContext | None:
        """How to encrypt; None where neither ``wanted`` nor set. ``trusting`` makes it where no authority is set.

        Raises ConfigurationError for files that cannot be used.
        """
        if not (wanted or self.tls):
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_ca) if self.tls_ca else trusting()
            if self.tls_cert:
                context.load_cert_chain(self.tls_cert, self.tls_key)
        except OSError as error:  # an unreadable file, or one that is not PEM
            raise ConfigurationError(f"the TLS files cannot be used: {error}", remedy="give PEM files") from error
        return context
