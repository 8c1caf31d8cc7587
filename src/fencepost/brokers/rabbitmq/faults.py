"""From what RabbitMQ and the client library say to the four families of errors."""

from __future__ import annotations

import re
import ssl

from aiormq import exceptions as library

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    FixError,
    ParkError,
    SchemaMissing,
    Unavailable,
)
from fencepost.faults import CERTIFICATE, UNREACHABLE, Verdict, as_error, verdict_of

SILENT = "is it a RabbitMQ server, and does it answer others? timeout_s says how long is waited"
BLOCKED = (
    "`rabbitmq-diagnostics alarms` says which limit of memory or disk is reached: let consumers catch up, or raise it"
)
_LOGIN = "check user, password and vhost in the URL"
_PERMITTED = "permit it to the relay's user (`rabbitmqctl set_permissions`); docs/rabbitmq.md lists what it needs"
_ANOTHER = "what answers there is no RabbitMQ: check host and port in the URL"
_MISSING = "create it, or set create = true so that the relay does"
_VHOST = "create the vhost, permit it to the user, and look at its limits; the server's log says which it is"

_BY_CLASS: dict[str, Verdict] = {
    "ProbableAuthenticationError": (AccessDenied, _LOGIN),
    "AuthenticationError": (FixError, "allow the mechanism PLAIN at the server"),
    "IncompatibleProtocolError": (FixError, _ANOTHER),
    "ConnectionNotAllowed": (AccessDenied, _LOGIN),
    "ConnectionNotImplemented": (FixError, "use a newer server"),
    "ConnectionResourceError": (Unavailable, "raise the server's limits, or close connections and channels"),
    "ConnectionInternalError": (Unavailable, "the server's log says more"),
    "ConnectionCommandInvalid": (ConfigurationError, "check exchange_type: its plug-in may not be enabled"),
    "ConnectionClosed": (ConnectionLost, ""),
    "AMQPConnectionError": (ConnectionLost, ""),
    "ChannelAccessRefused": (AccessDenied, _PERMITTED),
    "ChannelNotFoundEntity": (SchemaMissing, _MISSING),
    "ChannelLockedResource": (FixError, "the queue is exclusive to another connection: use another name"),
    "ChannelPreconditionFailed": (
        ConfigurationError,
        "what is there was declared otherwise: change the setting, or delete it at the server",
    ),
    "AMQPChannelError": (ConnectionLost, ""),
    "ChannelInvalidStateError": (ConnectionLost, ""),
    "DeliveryError": (Unavailable, "a queue is full or has no leader: its policy and the server's log say which"),
    "MethodNotImplemented": (FixError, "use a newer server"),
    "ProtocolSyntaxError": (Unavailable, _ANOTHER),
    "AMQPError": (Unavailable, ""),
    "PAMQPException": (Unavailable, _ANOTHER),
    "ConnectionRefusedError": (Unavailable, UNREACHABLE),
    "ConnectionError": (ConnectionLost, ""),
    "TimeoutError": (DeadlineExceeded, SILENT),
    "EOFError": (ConnectionLost, ""),
    "OSError": (Unavailable, UNREACHABLE),
    "CancelledError": (ConnectionLost, ""),  # what the library leaves where its own tasks have ended
    "RuntimeError": (ConnectionLost, ""),  # a call on what is closed
}

_TOO_LARGE = re.compile(r"message size (\d+) (?:is )?larger than (?:configured )?max size (\d+)")
_OPENING = "Connection.OpenOk"


def from_library(error: BaseException, what: str) -> FencepostError:
    """An error of the client library, or of the socket below it, as one of the families. ``what`` was being done."""
    text = f"{what}: {_said(error)}"
    if isinstance(error, ssl.SSLError):
        return FixError(text, remedy=CERTIFICATE)
    if isinstance(error, library.InvalidFrameError) and _OPENING in str(error):
        return AccessDenied(f"{what}: the server does not open the vhost", remedy=_VHOST)
    return as_error(verdict_of(error, _BY_CLASS) or (Unavailable, ""), text)


def is_refusal(error: BaseException | None) -> bool:
    """True where the server closed the channel because of one of the messages on it."""
    return isinstance(
        error, library.ChannelAccessRefused | library.ChannelNotFoundEntity | library.ChannelPreconditionFailed
    )


def of_a_message(error: BaseException, what: str) -> FencepostError:
    """A refusal of the one message that was sent: the message is at fault, or where it goes."""
    if isinstance(error, library.ChannelPreconditionFailed):
        return ParkError(f"{what}: {_said(error)}", remedy="change the message", at_once=True)
    return from_library(error, what)


def size_limit(error: BaseException | None) -> int | None:
    """The server's limit of a body in bytes, where it refused one for its size."""
    found = _TOO_LARGE.search(str(error))
    return int(found[2]) if found else None


def _said(error: BaseException) -> str:
    """What the server or the system said; the library's own classes are shown by their last argument."""
    if isinstance(error, library.AMQPError) and error.args:
        code, said = error.args[0], error.args[-1]
        return f"{said} (code {code})" if len(error.args) > 1 and code else str(said or type(error).__name__)
    return str(error) or type(error).__name__
