"""Where a plug-in's servers are and how to get in: scheme://user:password@host1:port,host2:port/path, and TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Self
from urllib.parse import SplitResult, unquote, urlsplit

from fencepost.errors import ConfigurationError
from fencepost.settings import Settings, path, setting

ESCAPES = "in a password write %2F for /, %3F for ?, %23 for #, %40 for @, %5B and %5D for [ and ]"


def split(url: str) -> SplitResult | None:
    """The parts of a URL; None where it has no host, or a port that cannot be one."""
    try:
        parts = urlsplit(url)
        return parts if parts.hostname and parts.port != 0 else None
    except ValueError:  # a port that is no number, or too large; a bracket that is not closed
        return None


def check_password(url: str, *, in_options: bool = False) -> None:
    """Raise ConfigurationError where a "/", "?" or "#" of a password ends the part of the URL that names the server, or
    a bracket hides it. ``in_options``: what is set behind the "?" may have an @ in it.

    The text is not repeated: it has the rest of the password in it.
    """
    rest, _, fragment = url.partition("://")[2].partition("#")
    rest, _, query = rest.partition("?")
    servers, _, path = rest.partition("/")
    names = "&".join(option.partition("=")[0] for option in query.split("&"))
    stray = query if "@" not in servers and not in_options else names
    if "@" in f"{path}{stray}{fragment}":
        raise ConfigurationError(
            "an @ stands too far behind in the URL, as if the password had a / ? or # in it", remedy=ESCAPES
        )
    try:
        urlsplit(f"//{servers}")
    except ValueError:  # which repeats the text
        raise ConfigurationError("a bracket of the URL has no other one, or no address in it", remedy=ESCAPES) from None


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
        if parts is None or not parts.hostname or parts.fragment:
            raise ConfigurationError(f"{plain(text)!r} is not the address of {cls.one}", remedy=cls.example)
        return parts.hostname, parts.port or port

    def __str__(self) -> str:
        return ", ".join(shown(server) for server in self.servers)


def plain(server: str) -> str:
    """A server that cannot be one, for an error: where its port should stand may stand a password, its host missing."""
    server = server.partition("#")[0]
    host, colon, port = server.partition(":")
    return server if server.startswith("[") or not colon or port.isdecimal() else f"{host}:***"


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
        if self.tls_ca:
            with _of_files("certificates of authorities (-----BEGIN CERTIFICATE-----)", tls_ca=self.tls_ca):
                context = ssl.create_default_context(cafile=self.tls_ca)
        else:
            context = trusting()
        if self.tls_cert:
            with _of_files(_PAIR, tls_cert=self.tls_cert, tls_key=self.tls_key):
                context.load_cert_chain(self.tls_cert, self.tls_key, password=_nobody)
        return context


_PAIR = "a certificate, and one with its private key, without a password"


def _nobody() -> str:
    """OpenSSL would ask whoever sits at the terminal, and wait."""
    return ""


@contextmanager
def _of_files(wanted: str, **paths: str) -> Iterator[None]:
    """An unreadable file, or one that is not PEM: what is raised names neither the file nor the setting."""
    try:
        yield
    except OSError as error:
        named = " and ".join(f"{setting} = {file!r}" for setting, file in paths.items())
        remedy = f"give a readable file in PEM form with {wanted}"
        raise ConfigurationError(f"{named} cannot be used: {error}", remedy=remedy) from error
