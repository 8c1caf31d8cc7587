"""From what a schema registry and its client say to the families of fencepost.errors."""

from __future__ import annotations

import importlib
import ssl

from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    SchemaMissing,
    Unavailable,
)


def _of_http(name: str) -> tuple[type[Exception], ...]:
    """A class of the HTTP library. The registry's client takes the one of two that is there."""
    found = []
    for library in ("httpx2", "httpx"):
        try:
            found.append(getattr(importlib.import_module(library), name))
        except ModuleNotFoundError:  # the other one is
            continue
    return tuple(found)


_HTTP, _TIMEOUT = _of_http("HTTPError"), _of_http("TimeoutException")
_NO_ADDRESS = _of_http("InvalidURL")

REGISTRY_ERRORS: tuple[type[Exception], ...] = (
    SchemaRegistryError,
    OAuthTokenError,
    ValueError,  # the answer is not JSON
    TypeError,  # the answer is JSON of another kind
    RuntimeError,  # it was closed meanwhile
    *_HTTP,
    *_NO_ADDRESS,
)
"""What a call of the client raises."""

_NO_SUBJECT = (40401, 40402)
_DENIED = (401, 403)
_BUSY = (408, 425, 429)
_LOGIN = "check schema.registry.basic.auth.user.info or schema.registry.bearer.auth..., and what that user may do there"
_ADDRESS = (
    "check schema.registry.url: it is that of an API like Confluent's, which may have a path of its own"
    " (Apicurio Registry: /apis/ccompat/v7)"
)


def words(error: Exception) -> str:
    """What an error says; some answers give no reason at all."""
    if isinstance(error, SchemaRegistryError):
        return f"{error.error_message or 'no reason is given'} (HTTP status {error.http_status_code})"
    return str(error) or type(error).__name__


def fault(error: Exception, doing: str, place: str, said: str) -> FencepostError:
    """The error to raise. ``said`` is what the error says, without any secret."""
    what = f"the schema registry {place}, while {doing}: {said}"
    if isinstance(error, SchemaRegistryError):
        return _answered(error, what)
    if isinstance(error, _TIMEOUT):
        return DeadlineExceeded(f"the schema registry {place}, while {doing}: no answer in time")
    if _is_about_certificates(error):
        return AccessDenied(what, remedy="check schema.registry.ssl.ca.location, and the certificate of the registry")
    if isinstance(error, _HTTP):
        return Unavailable(what, remedy="is it running? check schema.registry.url")
    if isinstance(error, RuntimeError):
        return ConnectionLost(what)
    if isinstance(error, OAuthTokenError):
        return Unavailable(what, remedy=_LOGIN)
    return ConfigurationError(what, remedy=_ADDRESS)


def _answered(error: SchemaRegistryError, what: str) -> FencepostError:
    status = error.http_status_code
    if status in _DENIED:
        return AccessDenied(what, remedy=_LOGIN)
    if error.error_code in _NO_SUBJECT:
        return SchemaMissing(what, remedy="register the schema, or name its file in [broker.schema_files]")
    if status in _BUSY or status >= 500:
        return Unavailable(what)
    if status == 404:
        return ConfigurationError(what, remedy=_ADDRESS)
    return ConfigurationError(what)


def _is_about_certificates(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return "CERTIFICATE_VERIFY_FAILED" in str(error)
