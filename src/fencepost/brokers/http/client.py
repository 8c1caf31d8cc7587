"""Connections to one target, by the client library's transport.

That is below its client, so that there are no cookies, no redirections, nothing from the environment, and no time
limits but the caller's. Each target has a pool of its own: the library looks at every connection of a pool for every
request.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from functools import partial
from urllib.parse import urlsplit

import httpx

from fencepost.brokers.http.faults import UNREACHABLE
from fencepost.brokers.http.routes import shown
from fencepost.brokers.http.settings import Settings
from fencepost.errors import DeadlineExceeded, FencepostError, FixError, Unavailable

_IDLE_S = 4.0
"""Shorter than what servers usually allow, so that a connection is seldom closed while a message is on its way."""


def tls_context(urls: Iterable[str], settings: Settings) -> ssl.SSLContext | None:
    """What the targets of these URLs need; None where none is encrypted. Raises ConfigurationError for TLS files that
    cannot be used.
    """
    wanted = any(url.startswith("https:") for url in (*urls, settings.proxy))
    return settings.tls_context(wanted, partial(httpx.create_ssl_context, trust_env=False))


def pool(settings: Settings, context: ssl.SSLContext | None) -> httpx.AsyncHTTPTransport:
    """Connections that whoever has them closes."""
    return httpx.AsyncHTTPTransport(
        verify=context or False,
        trust_env=False,
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=settings.connections, keepalive_expiry=_IDLE_S
        ),
        proxy=settings.proxy or None,
    )


async def reach(url: str, context: ssl.SSLContext | None, timeout_s: float) -> FencepostError | None:
    """Connect to a target (with TLS where it has it), and send nothing; what is wrong, None where nothing is."""
    parts, name = urlsplit(url), shown(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(parts.hostname, port, ssl=context if secure else None)
            writer.transport.abort()
    except ssl.SSLError as error:
        remedy = "check tls_ca, tls_cert and tls_key, the name in the target's certificate, and the scheme of the URL"
        return FixError(f"{name}: {error.reason or error}", remedy=remedy)
    except TimeoutError:
        return DeadlineExceeded(f"{name} does not answer", remedy=UNREACHABLE)
    except OSError as error:
        return Unavailable(f"{name} cannot be reached: {error.strerror or error}", remedy=UNREACHABLE)
    return None
