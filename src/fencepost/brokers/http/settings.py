"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.brokers.http.routes import url_fault
from fencepost.brokers.http.signature import key_of
from fencepost.errors import ConfigurationError
from fencepost.servers import ESCAPES, TlsSettings
from fencepost.settings import Given, setting, table, text


def _target(given: Given) -> str:
    url = text(given)
    if fault := url_fault(url):
        raise ConfigurationError(f"{given.place}: {fault.what}", remedy=fault.remedy)
    return url


def _secrets(given: Given) -> tuple[bytes, ...]:
    """The keys. What is wrong with one is told without showing it."""
    texts = given.value.split(",") if isinstance(given.value, str) else given.value
    if not isinstance(texts, list | tuple) or not texts:
        raise ConfigurationError(f"{given.place} is no list of texts", remedy='write ["whsec_..."]')
    try:
        return tuple(key_of(str(each).strip()) for each in texts)
    except ValueError as error:
        raise ConfigurationError(
            f"a secret of {given.place} is not usable: {error}",
            remedy='write "whsec_" and at least 24 bytes as base64; several with commas, the newest first',
        ) from None


def _token(given: Given) -> str:
    token = str(given.value)
    if token.isascii() and token.isprintable() and " " not in token and token:
        return token
    raise ConfigurationError(
        f"{given.place} cannot be sent in a header", remedy="a token has printable ASCII without blanks"
    )


def _proxy(given: Given) -> str:
    url = text(given)
    if fault := url_fault(url, template=False):
        raise ConfigurationError(f"{given.place}: {fault.what}", remedy=f"write http://host:3128; {ESCAPES}")
    return url


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(TlsSettings):
    """What can be set in ``[broker]`` besides the URL.

    ``targets.PATTERN`` is the URL for the topics of a pattern. ``signing_secrets`` sign every message, the first of
    them being the newest; ``bearer_token`` is sent with every message; both may be given for a PATTERN of topics
    instead. ``connections`` are open to one target at most. ``publish_s`` is how long the messages of a batch may take
    together, None for most of what the lease allows. ``proxy`` is a URL. The TLS settings are paths of files.
    """

    title = "HTTP"

    targets: Mapping[str, str] = table(_target, example='a table such as [broker.targets] "orders.*" = "https://..."')
    signing_secrets: Mapping[str, tuple[bytes, ...]] = table(_secrets, alone="*", secret=True)
    bearer_token: Mapping[str, str] = table(_token, alone="*", secret=True)
    connections: int = 16
    batch_max: int = 250
    publish_s: float | None = None
    proxy: str = setting("", _proxy, secret=True)
