"""What botocore and aiobotocore raise, as one of the four families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from botocore import exceptions as boto

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    Contention,
    DeadlineExceeded,
    FencepostError,
    FixError,
    SchemaMissing,
    Unavailable,
)

ERRORS = (boto.BotoCoreError, boto.ClientError, OSError)
"""Everything that a call can raise when the service, the network, the credentials or the library is at fault."""

CONDITION = "ConditionalCheckFailed"
"""The code of a reason why a transaction was cancelled: a condition was not met."""

APPLY = "run `fencepost schema apply`, or hand the output of `fencepost schema print` to whoever may create tables"
_CREDENTIALS = "give this process credentials that may do it: environment, ~/.aws, or the role of the machine"
_CAPACITY = "raise the table's capacity, or spread the outbox over more buckets"

_CODES: dict[str, tuple[type[FencepostError], str]] = {
    "AccessDeniedException": (AccessDenied, _CREDENTIALS),
    "ExpiredTokenException": (AccessDenied, _CREDENTIALS),
    "IncompleteSignatureException": (AccessDenied, _CREDENTIALS),
    "InvalidSignatureException": (AccessDenied, _CREDENTIALS),
    "MissingAuthenticationTokenException": (AccessDenied, _CREDENTIALS),
    "OptInRequired": (AccessDenied, _CREDENTIALS),
    "UnrecognizedClientException": (AccessDenied, _CREDENTIALS),
    "ResourceNotFoundException": (SchemaMissing, APPLY),
    "TableNotFoundException": (SchemaMissing, APPLY),
    "ResourceInUseException": (Unavailable, ""),
    "LimitExceededException": (Unavailable, ""),
    "ProvisionedThroughputExceededException": (Unavailable, _CAPACITY),
    "RequestLimitExceeded": (Unavailable, _CAPACITY),
    "ThrottlingException": (Unavailable, _CAPACITY),
    "Throttling": (Unavailable, _CAPACITY),
    "ThrottlingError": (Unavailable, _CAPACITY),
    "ProvisionedThroughputExceeded": (Unavailable, _CAPACITY),
    "ServiceUnavailable": (Unavailable, ""),
    "TransactionConflict": (Contention, ""),
    "TransactionConflictException": (Contention, ""),
    "TransactionInProgressException": (Contention, ""),
    "ReplicatedWriteConflictException": (Contention, ""),
    "ConditionalCheckFailedException": (Contention, ""),
    CONDITION: (Contention, ""),
    "InternalServerError": (ConnectionLost, ""),  # what was asked may have happened
    "InternalFailure": (ConnectionLost, ""),
}
"""Error codes of the service, and codes of the reasons why it cancelled a transaction. Others are for a person."""

_CLASSES: tuple[tuple[type[BaseException], type[FencepostError], str], ...] = (
    (boto.ReadTimeoutError, DeadlineExceeded, ""),
    (boto.ConnectTimeoutError, Unavailable, ""),
    (boto.EndpointConnectionError, Unavailable, ""),
    (boto.ProxyConnectionError, Unavailable, ""),
    (boto.SSLError, ConfigurationError, "check the endpoint's certificate, and that it speaks TLS at all"),
    (boto.HTTPClientError, ConnectionLost, ""),
    (boto.IncompleteReadError, ConnectionLost, ""),
    (boto.ResponseStreamingError, ConnectionLost, ""),
    (boto.MetadataRetrievalError, Unavailable, ""),
    (boto.NoCredentialsError, AccessDenied, _CREDENTIALS),
    (boto.PartialCredentialsError, AccessDenied, _CREDENTIALS),
    (boto.CredentialRetrievalError, AccessDenied, _CREDENTIALS),
    (boto.TokenRetrievalError, AccessDenied, _CREDENTIALS),
    (boto.SSOError, AccessDenied, _CREDENTIALS),
    (boto.RefreshWithMFAUnsupportedError, AccessDenied, _CREDENTIALS),
    (boto.BotoCoreError, FixError, ""),
    (TimeoutError, DeadlineExceeded, ""),
    (OSError, ConnectionLost, ""),
)


def code_of(error: BaseException) -> str:
    """The service's code of an error, "" where it is none of the service's."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def reasons(error: BaseException) -> Sequence[Mapping[str, Any]]:
    """Why a transaction was cancelled: one reason for each of its items ("Code" is "None" for those not to blame)."""
    found = error.response.get("CancellationReasons", ()) if isinstance(error, boto.ClientError) else ()
    return tuple(found)


def fault_of(error: BaseException, place: str) -> FencepostError:
    """The error of a call to the service at ``place``."""
    text = f"{place}: {' '.join(str(error).split()) or type(error).__name__}"
    if isinstance(error, boto.ClientError):
        kind, remedy = _of_service(error)
        return kind(text, remedy=remedy)
    for cls, known, remedy in _CLASSES:
        if isinstance(error, cls):
            return known(text, remedy=remedy)
    return FixError(text)


def _of_service(error: boto.ClientError) -> tuple[type[FencepostError], str]:
    found = [_CODES.get(str(reason.get("Code")), (FixError, "")) for reason in _blamed(error)]
    if found:  # what a person must mend comes first
        return min(found, key=lambda one: not issubclass(one[0], FixError))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    unknown: type[FencepostError] = ConnectionLost if status >= 500 else FixError
    return _CODES.get(code_of(error), (unknown, ""))


def _blamed(error: boto.ClientError) -> list[Mapping[str, Any]]:
    return [reason for reason in reasons(error) if reason.get("Code") not in {None, "None"}]
