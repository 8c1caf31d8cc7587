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
from fencepost.faults import Verdict

ERRORS = (boto.BotoCoreError, boto.ClientError, OSError)
"""Everything that a call can raise when the service, the network, the credentials or the library is at fault."""

CONDITION = "ConditionalCheckFailed"
"""The code of a reason why a transaction was cancelled: a condition was not met."""

APPLY = "run `fencepost schema apply`, or hand the output of `fencepost schema print` to whoever may create tables"
_CREDENTIALS = "give this process credentials that may do it: environment, ~/.aws, or the role of the machine"
UNREACHABLE = "is the server running? check the endpoint or the region in the URL, and that nothing between blocks it"
_SILENT = (
    "look at the server and at the network between: it takes requests, or loses them, without an answer; or it is"
    " another kind of server than {one}"
)
_ANOTHER = "is it {one} that answers there? check the endpoint in the URL, http or https among it"
_PROXY = "check the proxy that the environment names (HTTP_PROXY, HTTPS_PROXY)"
_CAPACITY = "raise the table's capacity, or spread the outbox over more buckets"

_SHOWN_CHARACTERS = 500  # a server of another kind is repeated word by word

_CODES: dict[str, Verdict] = {
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
    (boto.ReadTimeoutError, DeadlineExceeded, _SILENT),
    (boto.ConnectTimeoutError, Unavailable, UNREACHABLE),
    (boto.EndpointConnectionError, Unavailable, UNREACHABLE),
    (boto.ProxyConnectionError, Unavailable, _PROXY),
    (boto.SSLError, ConfigurationError, "check the endpoint's certificate, and that it speaks TLS at all"),
    (boto.HTTPClientError, ConnectionLost, _ANOTHER),
    (boto.IncompleteReadError, ConnectionLost, ""),
    (boto.ResponseStreamingError, ConnectionLost, ""),
    (boto.MetadataRetrievalError, Unavailable, _CREDENTIALS),
    (boto.NoCredentialsError, AccessDenied, _CREDENTIALS),
    (boto.PartialCredentialsError, AccessDenied, _CREDENTIALS),
    (boto.CredentialRetrievalError, AccessDenied, _CREDENTIALS),
    (boto.TokenRetrievalError, AccessDenied, _CREDENTIALS),
    (boto.SSOError, AccessDenied, _CREDENTIALS),
    (boto.RefreshWithMFAUnsupportedError, AccessDenied, _CREDENTIALS),
    (boto.BotoCoreError, FixError, ""),
    (TimeoutError, DeadlineExceeded, _SILENT),
    (OSError, ConnectionLost, ""),
)


def code_of(error: BaseException) -> str:
    """The service's code of an error, "" where it is none of the service's."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def reasons(error: BaseException) -> Sequence[Mapping[str, Any]]:
    """Why a transaction was cancelled: one reason for each of its items ("Code" is "None" for those not to blame)."""
    found = error.response.get("CancellationReasons", ()) if isinstance(error, boto.ClientError) else ()
    return tuple(found)


def silent(one: str) -> str:
    """What to do where a service ("a DynamoDB") does not answer in time."""
    return _SILENT.format(one=one)


def told(error: BaseException, place: str) -> str:
    """What an error of the service at ``place`` says, in one line that is not too long."""
    return f"{place}: {' '.join(str(error).split())[:_SHOWN_CHARACTERS] or type(error).__name__}"


def fault_of(error: BaseException, place: str, one: str = "a DynamoDB") -> FencepostError:
    """The error of a call to the service at ``place``. The codes are those of DynamoDB, the rest is any service's."""
    kind, remedy = _kind(error)
    return kind(told(error, place), remedy=remedy.format(one=one))


def _kind(error: BaseException) -> Verdict:
    if isinstance(error, boto.ClientError):
        return _of_service(error)
    return next(((known, remedy) for cls, known, remedy in _CLASSES if isinstance(error, cls)), (FixError, ""))


def _of_service(error: boto.ClientError) -> Verdict:
    found = [_CODES.get(str(reason.get("Code")), (FixError, "")) for reason in _blamed(error)]
    if found:  # what a person must mend comes first
        return min(found, key=lambda one: not issubclass(one[0], FixError))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    unknown: type[FencepostError] = ConnectionLost if status >= 500 else FixError
    code = code_of(error)
    return _CODES.get(code, (unknown, _ANOTHER if code.isdigit() else ""))  # the service itself has names


def _blamed(error: boto.ClientError) -> list[Mapping[str, Any]]:
    return [reason for reason in reasons(error) if reason.get("Code") not in {None, "None"}]
