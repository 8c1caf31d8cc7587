"""From errors of the client library to the four families."""

from __future__ import annotations

import ssl

import httpx

from fencepost.errors import (
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    FixError,
    ParkError,
    RetryError,
    Unavailable,
)

Family = type[RetryError] | type[FixError] | type[ParkError]

LIBRARY = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, httpx.CookieConflict)
"""What the library raises; each of its classes is one of these."""

UNREACHABLE = "is the target running? check host and port in the URL, and that nothing between blocks them"
SILENT = "see why the target is slow; publish_s says how long a batch may take, and needs a longer [lease] ttl_s"

_BY_CLASS: dict[type[Exception], tuple[Family, str]] = {
    httpx.TimeoutException: (DeadlineExceeded, SILENT),
    httpx.ConnectTimeout: (Unavailable, UNREACHABLE),
    httpx.ConnectError: (Unavailable, UNREACHABLE),
    httpx.NetworkError: (ConnectionLost, ""),
    httpx.ProxyError: (Unavailable, "check proxy, and whether it lets this target through"),
    httpx.LocalProtocolError: (ParkError, "change the message: its headers cannot be sent"),
    httpx.RemoteProtocolError: (ConnectionLost, "does HTTP/1.1 answer there? check scheme and port in the URL"),
    httpx.UnsupportedProtocol: (ConfigurationError, "write http:// or https://"),
    httpx.InvalidURL: (ParkError, "send it to another topic"),
    httpx.TooManyRedirects: (FixError, "set the URL that it leads to"),
    httpx.CookieConflict: (FixError, ""),
    httpx.StreamError: (ConnectionLost, ""),
    httpx.HTTPError: (Unavailable, ""),
}


def from_library(error: Exception, what: str) -> RetryError | FixError | ParkError:
    """An error of the client library as one of the families."""
    text = f"{what}: {str(error) or type(error).__name__}"
    if (cause := _tls_cause(error)) is not None:
        remedy = "check tls_ca, tls_cert and tls_key, the name in the target's certificate, and the scheme of the URL"
        return FixError(f"{what}: {cause.reason or cause}", remedy=remedy)
    family, remedy = next(_BY_CLASS[known] for known in type(error).__mro__ if known in _BY_CLASS)
    if issubclass(family, ParkError):
        return family(text, remedy=remedy, at_once=True)
    return family(text, remedy=remedy)


def _tls_cause(error: BaseException) -> ssl.SSLError | None:
    """What the library made its error of, where that is TLS. A connection that merely ends is none."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            ended = isinstance(seen, ssl.SSLEOFError | ssl.SSLZeroReturnError)
            return None if ended else seen
        seen = seen.__cause__ or seen.__context__
    return None
