"""From what the server and the client library say to the four families of errors."""

from __future__ import annotations

import ssl
from typing import Any

from nats import errors as library

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    Contention,
    DeadlineExceeded,
    Fenced,
    FencepostError,
    FixError,
    GuaranteeUnavailable,
    ParkError,
    SchemaMissing,
    Unavailable,
)
from fencepost.faults import CERTIFICATE, UNREACHABLE, Verdict, as_error, verdict_of

NO_RESPONDERS = 0
"""Our own err_code for "nothing listens on this subject": the server says it by a header, without a code."""
NO_MESSAGE = 10037
DELETE_FAILED = 10057
STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = frozenset({10014, STREAM_NOT_FOUND})
CONSUMER_EXISTS = frozenset({10013, 10105, 10148})
"""What a server says of a name in use, depending on its version and on whether the other one is active."""
STREAM_NAME_IN_USE = 10058
SUBJECTS_OVERLAP = 10065
WRONG_LAST_SEQUENCE = 10071
STILL_IN_PROCESS = frozenset({10163, 10164})
"""The subject of the receipts has a message under way, so the server could not compare: refused, nothing stored."""


class Refusal(Exception):
    """An answer of the server that says no. It never leaves the plug-in: ``as_error`` is what others see."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        self.code, self.err_code, self.description = code, err_code, description
        super().__init__(f"{description} (code {code}, err_code {err_code})")

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Refusal | None:
        """The refusal in an answer, None where it is none."""
        error = answer.get("error")
        if not isinstance(error, dict):
            return None
        return cls(int(error.get("code", 0)), int(error.get("err_code", -1)), str(error.get("description", "")))

    def as_error(self, what: str) -> FencepostError:
        """The same as one of the families. ``what`` says what was asked for."""
        verdict = _BY_ERR_CODE.get(self.err_code) or _by_code(self.code)
        return as_error(verdict, f"{what}: the NATS server answered {self}")


def _by_code(code: int) -> Verdict:
    if 400 <= code < 500 and code not in (408, 409, 412, 429):
        return FixError, ""
    return Unavailable, ""


SILENT = "is it a NATS server, and does it answer others? timeout_s says how long is waited"
_ANOTHER = "what answers there is no NATS server: check host and port in the URL"
_LOGIN = "check user, password, token or credentials"
_PERMITTED = "permit it to the relay's user; docs/nats.md lists all that it needs (here it is in small letters)"

_CONFIGURED = "change the stream's configuration or the broker's settings"
_ROOM = "make room: raise the limits, or let consumers and retention free space"
_ENABLE = "start the server with JetStream (nats-server -js) and allow it for this account"
_BY_HAND = "add the subjects to the stream yourself"
_DOUBLING = (
    "if every batch is refused so, the server takes a subject of the stream twice, which it does for good after two "
    "clients changed the stream at once: restart the server, or delete and create the stream"
)
_BATCHES = "set allow_atomic on the stream and restart the relay"

_BY_ERR_CODE: dict[int, Verdict] = {
    NO_RESPONDERS: (
        Unavailable,
        "nothing takes this subject at the moment: is the stream there, and JetStream running?",
    ),
    # in charge is somebody else
    WRONG_LAST_SEQUENCE: (Fenced, ""),
    # refused for the moment, nothing stored
    10163: (Contention, ""),
    10164: (Contention, ""),
    10158: (Contention, ""),
    STREAM_NAME_IN_USE: (Contention, ""),
    10013: (Contention, ""),
    10105: (Contention, ""),
    10148: (Contention, ""),
    # the server or the cluster cannot serve now
    10004: (Unavailable, ""),
    10007: (Unavailable, ""),
    10008: (Unavailable, ""),
    10009: (Unavailable, ""),
    10041: (Unavailable, ""),
    10075: (Unavailable, ""),
    10077: (Unavailable, _ROOM),
    10096: (Unavailable, ""),
    10118: (Unavailable, ""),
    10124: (Unavailable, ""),
    10167: (Unavailable, "the stream receives more than it can store"),
    10176: (Unavailable, _DOUBLING),
    10194: (Unavailable, ""),
    10202: (Unavailable, ""),
    10210: (Unavailable, "too many atomic batches are under way at once"),
    10226: (Unavailable, ""),
    # room may come back
    10002: (Unavailable, _ROOM),
    10023: (Unavailable, _ROOM),
    10028: (Unavailable, _ROOM),
    10047: (Unavailable, _ROOM),
    # this message alone
    10054: (ParkError, "store the large part elsewhere, or raise the stream's max_msg_size"),
    10097: (ParkError, "a message may have 64 KiB of headers"),
    # a person must change something
    10003: (FixError, ""),
    10005: (FixError, "fewer replicas, or more servers"),
    10025: (FixError, ""),
    10026: (FixError, "raise the limit of consumers, or add the subjects to the stream yourself"),
    10027: (FixError, "raise the account's limit of streams, or use an existing stream"),
    10035: (FixError, _ENABLE),
    10039: (FixError, _ENABLE),
    10052: (ConfigurationError, _CONFIGURED),
    10053: (FixError, _CONFIGURED),
    STREAM_NOT_FOUND: (SchemaMissing, "create the stream, or set create = true"),
    10060: (FixError, "the subject belongs to another stream"),
    SUBJECTS_OVERLAP: (FixError, "the subject belongs to another stream"),
    10069: (FixError, _CONFIGURED),
    10074: (ConfigurationError, "set replicas = 1, or run a cluster"),
    10076: (FixError, _ENABLE),
    10099: (FixError, _BY_HAND),
    10100: (FixError, _BY_HAND),
    10109: (FixError, "the stream is sealed: use another one"),
    10110: (FixError, "allow purging on the stream"),
    10113: (FixError, "create the stream yourself with max_bytes, which this account demands"),
    10120: (FixError, "give the account JetStream limits"),
    10122: (FixError, _CONFIGURED),
    10133: (ConfigurationError, "set replicas to 1 or more"),
    10174: (GuaranteeUnavailable, _BATCHES),
    10175: (FixError, ""),
    10177: (FixError, ""),
    10179: (FixError, ""),
    10185: (FixError, "use a newer server"),
    10199: (ConfigurationError, "set batch_max to one less than the server's limit"),
    10200: (FixError, ""),
    10201: (FixError, ""),
}

_BY_CLASS: dict[str, Verdict] = {
    "AuthorizationError": (AccessDenied, _LOGIN),
    "InvalidUserCredentialsError": (AccessDenied, "check the credentials file"),
    "SecureConnRequiredError": (FixError, "use TLS: set tls_ca, or nats+tls:// in the URL"),
    "SecureConnWantedError": (FixError, "the server does not offer TLS"),
    "SecureConnFailedError": (FixError, "check tls_ca, tls_cert and tls_key"),
    "NoServersError": (Unavailable, UNREACHABLE),
    "NoRespondersError": (Unavailable, ""),
    "ServerNotInPoolError": (Unavailable, ""),
    "JsonParseError": (Unavailable, _ANOTHER),
    "TimeoutError": (DeadlineExceeded, SILENT),
    "FlushTimeoutError": (DeadlineExceeded, SILENT),
    "DrainTimeoutError": (DeadlineExceeded, ""),
    "StaleConnectionError": (ConnectionLost, ""),
    "UnexpectedEOF": (ConnectionLost, ""),
    "ConnectionClosedError": (ConnectionLost, ""),
    "ConnectionDrainingError": (ConnectionLost, ""),
    "ConnectionReconnectingError": (ConnectionLost, ""),
    "OutboundBufferLimitError": (ConnectionLost, ""),
    "SlowConsumerError": (ConnectionLost, ""),
    "ProtocolError": (ConnectionLost, ""),
    "ConnectionResetError": (ConnectionLost, ""),
    "ConnectionAbortedError": (ConnectionLost, ""),
    "BrokenPipeError": (ConnectionLost, ""),
    "OSError": (Unavailable, UNREACHABLE),
    "BadSubscriptionError": (FixError, ""),
    "BadSubjectError": (FixError, ""),
    "BadHeaderError": (FixError, ""),
    "BadTimeoutError": (FixError, ""),
    "MaxPayloadError": (FixError, "raise the server's max_payload"),
    "InvalidCallbackTypeError": (FixError, ""),
    "NotJSMessageError": (FixError, ""),
    "MsgAlreadyAckdError": (FixError, ""),
}

_DENIED = ("authorization", "authentication")


def from_library(error: Exception, what: str) -> FencepostError:
    """An error of the client library, or of the socket below it, as one of the families."""
    text = f"{what}: {str(error) or type(error).__name__}"
    if isinstance(error, ssl.SSLError):
        return FixError(text, remedy=CERTIFICATE)
    if verdict := verdict_of(error, _BY_CLASS):
        return as_error(verdict, text)
    said = str(error).lower() if isinstance(error, library.Error) else ""
    if "permissions violation" in said:
        return AccessDenied(text, remedy=_PERMITTED)
    if any(word in said for word in _DENIED):
        return AccessDenied(text, remedy=_LOGIN)
    return Unavailable(text, remedy=_ANOTHER if "expecting info" in said else "")
