"""Where the servers are and how to get in: from the URL and the settings to what the client library is given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote

from fencepost.brokers.nats.settings import Settings
from fencepost.errors import ConfigurationError
from fencepost.servers import check_password, plain, split

_SCHEMES = ("nats", "tls", "ws", "wss")
_WEB = ("ws", "wss")
_REMEDY = (
    "write nats://host:4222, several with commas; in a password %2C is a comma, and %2F, %3F, %23, %40 are / ? # @"
)
_TRY_AGAIN_S = 0.05
_PING_S = 10.0


@dataclass(frozen=True, slots=True)
class Address:
    """``servers`` are without credentials, so they may be shown; ``credentials`` are those that stood in the URL."""

    servers: tuple[str, ...]
    credentials: dict[str, str]

    @classmethod
    def of(cls, url: str) -> Address:
        """The address in a URL: one or several servers, with commas between them. Raises ConfigurationError."""
        parts = [_split(part.strip()) for part in url.split(",") if part.strip()]
        if not parts:
            raise ConfigurationError("the URL of the NATS server is empty", remedy="write nats://host:4222")
        logins = [_credentials(p) for p in parts if p.username is not None]
        if any(login != logins[0] for login in logins):
            raise ConfigurationError("the servers of the URL have several logins", remedy="write one, before the first")
        return cls(tuple(_without_credentials(p) for p in parts), logins[0] if logins else {})

    @property
    def wants_tls(self) -> bool:
        """True where the scheme asks for encryption."""
        return any(server.startswith(("tls://", "wss://")) for server in self.servers)

    def __str__(self) -> str:
        return ", ".join(server.partition("://")[2] for server in self.servers)


def connect_options(address: Address, settings: Settings) -> dict[str, Any]:
    """The arguments of the library's ``connect``. Raises ConfigurationError for TLS files that cannot be used."""
    options: dict[str, Any] = {
        "servers": list(address.servers),
        "name": "fencepost",
        "allow_reconnect": False,
        "max_reconnect_attempts": 1,  # each address twice; 0 would mean for ever
        "reconnect_time_wait": _TRY_AGAIN_S,
        "ping_interval": _PING_S,
        "inbox_prefix": settings.inbox_prefix,
    }
    given = {
        "user": settings.user,
        "password": settings.password,
        "token": settings.token,
        "user_credentials": settings.credentials,
        "nkeys_seed": settings.nkey_seed,
    }
    given = {name: value for name, value in given.items() if value}
    if (tls := settings.tls_context(address.wants_tls)) is not None:
        options["tls"] = tls
    return options | (given or address.credentials)


def _split(server: str) -> SplitResult:
    text = server.removeprefix("nats+")
    text = text if "://" in text else f"nats://{text}"
    check_password(text)
    parts = split(text)
    if parts is None or parts.scheme not in _SCHEMES:
        raise ConfigurationError(f"{_shown(text)!r} is not the address of a NATS server", remedy=_REMEDY)
    if parts.fragment or (parts.path.strip("/") and parts.scheme not in _WEB):
        found = "path" if parts.path.strip("/") else "part behind #"
        raise ConfigurationError(f"the URL of a NATS server has no {found}, and this one has", remedy=_REMEDY)
    if parts.query and parts.scheme not in _WEB:
        raise ConfigurationError(
            f"the URL of a NATS server has no options, and this one has {parts.query.partition('=')[0]!r}",
            remedy="write it as a setting of its own, below url; docs/nats.md lists them",
        )
    return parts._replace(path="") if parts.scheme not in _WEB else parts


def _shown(server: str) -> str:
    """What cannot be the address of a server, without what may be a password."""
    scheme, _, rest = server.partition("://")
    return f"{scheme}://{plain(re.split('[/?]', rest.rpartition('@')[2])[0])}"


def _without_credentials(parts: SplitResult) -> str:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _credentials(parts: SplitResult) -> dict[str, str]:
    """A user alone is a token, as everywhere with NATS."""
    user = unquote(parts.username or "")
    return {"token": user} if parts.password is None else {"user": user, "password": unquote(parts.password)}
