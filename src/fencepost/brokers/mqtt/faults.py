"""From what the server and the client library say to the four families of errors."""

from __future__ import annotations

import ssl

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
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

SUCCESS = 0x00
NO_SUBSCRIBERS = 0x10
PROTOCOL_ERROR = 0x82
"""Also what the client library says where it does not understand the server."""
NOT_AUTHORIZED = 0x87
QUOTA_EXCEEDED = 0x97

SILENT = "is it an MQTT server, and does it answer others? timeout_s says how long is waited"
NO_TLS = "what answers there speaks no TLS: use mqtt:// and the port for it, or enable TLS at the server"
_LOGIN = "check user and password"
_VERSION = "use a server with MQTT 5: earlier versions tell nobody whether a message was taken"
_CLIENT_ID = "the server wants client ids of another form: set client_id"
_PERMITTED = "permit the relay's user, or its client id, to publish there"
_LOG = "the server's log says more"
_LIMITS = "raise the server's limits, or let its subscribers catch up"
_ELSEWHERE = "write the address of the server that it names into the URL"
_TAKEN_OVER = (
    "if no other relay of this name is running, another client has the same client id: set client_id to one of your own"
)
_CHANGE = "change the message"

# By the numbers of the protocol: one number means the same wherever it comes.
_BY_CODE: dict[int, Verdict] = {
    0x80: (Unavailable, _LOG),
    0x81: (ConnectionLost, _LOG),
    PROTOCOL_ERROR: (ConnectionLost, "is it a server with MQTT 5? its log may say more"),
    0x83: (Unavailable, _LOG),
    0x84: (FixError, _VERSION),
    0x85: (ConfigurationError, _CLIENT_ID),
    0x86: (AccessDenied, _LOGIN),
    NOT_AUTHORIZED: (AccessDenied, _PERMITTED),
    0x88: (Unavailable, ""),
    0x89: (Unavailable, ""),
    0x8A: (AccessDenied, "the server has banned this client: ask who runs it"),
    0x8B: (ConnectionLost, ""),
    0x8C: (FixError, "let the server accept user and password, or a client certificate"),
    0x8D: (ConnectionLost, ""),
    0x8E: (Fenced, _TAKEN_OVER),
    0x8F: (FixError, _LOG),
    0x90: (ParkError, "rename the topic, or change the setting topic"),
    0x91: (ConnectionLost, ""),
    0x93: (ConnectionLost, ""),
    0x94: (ConnectionLost, ""),
    0x95: (ParkError, "store the large part elsewhere, or raise the server's limit"),
    0x96: (Unavailable, _LIMITS),
    QUOTA_EXCEEDED: (Unavailable, _LIMITS),
    0x98: (ConnectionLost, ""),
    0x99: (ParkError, _CHANGE),
    0x9A: (ConfigurationError, "set retain = false, or let the server retain messages"),
    0x9B: (GuaranteeUnavailable, "use a server that takes QoS 1"),
    0x9C: (Unavailable, _ELSEWHERE),
    0x9D: (FixError, _ELSEWHERE),
    0x9E: (FixError, _LOG),
    0x9F: (Unavailable, ""),
    0xA0: (ConnectionLost, ""),
    0xA1: (FixError, _LOG),
    0xA2: (FixError, _LOG),
}

_OF_A_MESSAGE = frozenset({0x81, PROTOCOL_ERROR, 0x83, NOT_AUTHORIZED, 0x90, 0x95, 0x99, 0x9A})

_BY_CLASS: dict[str, Verdict] = {
    "ConnectionRefusedError": (Unavailable, UNREACHABLE),
    "TimeoutError": (DeadlineExceeded, SILENT),
    "ConnectionError": (ConnectionLost, ""),
    "OSError": (Unavailable, UNREACHABLE),
    "MalformedPacket": (ConnectionLost, "what answers there is no MQTT server: check host and port in the URL"),
    "MQTTException": (Unavailable, ""),
    "ValueError": (ConfigurationError, "check host and port in the URL"),
}


def said(code: int, name: str, text: str = "") -> str:
    """What the server said, for people: the name of the number, and its own words where it gave any."""
    words = f", {text!r}" if text else ""
    return f"{name or 'an unknown reason'} (0x{code:02X}){words}"


def from_code(code: int, name: str, what: str, text: str = "") -> FencepostError:
    """A refusal as one of the families. ``what`` was being done."""
    verdict = _BY_CODE.get(code, (Unavailable, _LOG))
    return as_error(verdict, f"{what}: the MQTT server said {said(code, name, text)}")


def ended(code: int, name: str, what: str, *, by_server: bool, text: str = "") -> FencepostError:
    """Why a connection has ended."""
    if by_server:
        error = from_code(code, name, f"{what} was ended by the server", text)
        return ConnectionLost(error.what, remedy=error.remedy) if isinstance(error, ParkError) else error
    if code == PROTOCOL_ERROR:
        return ConnectionLost(f"{what} was ended: the server's answer is not understood", remedy=_BY_CODE[code][1])
    return ConnectionLost(f"{what} is lost" + (f": {name}" if code == 0x8D else ""))


def is_of_a_message(code: int) -> bool:
    """True where a server may end a connection with this because of one of the messages on it."""
    return code in _OF_A_MESSAGE


def of_a_message(code: int, name: str, what: str, text: str = "") -> FencepostError:
    """The same as an error of the one message that was under way when the server ended the connection."""
    error = from_code(code, name, what, text)
    if isinstance(error, ConnectionLost | Unavailable):
        return ParkError(error.what, remedy=_CHANGE)
    return error


def no_subscribers(what: str) -> SchemaMissing:
    """The server took a message and had nobody to give it to."""
    return SchemaMissing(
        f"{what}: nobody is subscribed, so the MQTT server has dropped it",
        remedy="start the subscribers, with sessions that outlast a connection; or set allow_no_subscribers = true",
    )


def from_library(error: BaseException, what: str) -> FencepostError:
    """An error of the client library, or of the socket below it, as one of the families."""
    text = f"{what}: {str(error) or type(error).__name__}"
    if isinstance(error, ssl.SSLError):
        return FixError(text, remedy=NO_TLS if isinstance(error, ssl.SSLEOFError) or _is_plain(error) else CERTIFICATE)
    return as_error(verdict_of(error, _BY_CLASS) or (Unavailable, ""), text)


def _is_plain(error: ssl.SSLError) -> bool:
    return getattr(error, "reason", None) in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}
