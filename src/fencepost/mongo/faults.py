"""What pymongo raises, as one of the four families."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bson import errors as bson_errors
from pymongo import errors as pm

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

ERRORS = (pm.PyMongoError, bson_errors.BSONError, OSError, TimeoutError)
"""Everything that a call can raise when the server, the network or the driver is at fault."""

APPLY = "run `fencepost schema apply`, or hand the output of `fencepost schema print` to whoever may create indexes"
RIGHTS = "give the user the role readWrite on this database"
SILENT = "is the server busy, paused, without a majority of its members, or another kind of server?"
_NO_PRIMARY = "is a primary up, can it be reached under these names, and is it a MongoDB that listens there?"
_ANOTHER = "what answers there speaks another protocol than MongoDB: check host and port in the URL"
_GARBLED = re.compile(r"Got response id \d+ but expected|Message length \(\d+\)|Got opcode")
_CLOCK = "the server ends what takes too long: is it overloaded, or an index missing? (`fencepost check`)"
_LARGE = "a document may have 16 MB: store large payloads elsewhere and send their address"

_CODES: dict[int, Verdict] = {
    # who you are
    11: (AccessDenied, "check user, password and authSource"),
    13: (AccessDenied, RIGHTS),
    18: (AccessDenied, "check user, password and authSource"),
    31: (AccessDenied, RIGHTS),
    33: (AccessDenied, RIGHTS),
    8000: (AccessDenied, "check user, password and authSource"),
    # what is not there
    26: (SchemaMissing, APPLY),
    27: (SchemaMissing, APPLY),
    # what passes by itself
    24: (Contention, ""),
    46: (Contention, ""),
    112: (Contention, ""),
    117: (Contention, ""),
    239: (Contention, ""),
    246: (Contention, ""),
    251: (Contention, ""),
    11000: (Contention, ""),
    # what was not finished in time
    50: (DeadlineExceeded, _CLOCK),
    64: (DeadlineExceeded, SILENT),
    89: (DeadlineExceeded, SILENT),
    100: (Unavailable, SILENT),
    202: (DeadlineExceeded, SILENT),
    262: (DeadlineExceeded, _CLOCK),
    # another server is in charge, or none: the session must begin anew
    6: (ConnectionLost, ""),
    7: (ConnectionLost, ""),
    43: (ConnectionLost, ""),
    91: (ConnectionLost, ""),
    133: (Unavailable, SILENT),
    189: (ConnectionLost, ""),
    9001: (ConnectionLost, ""),
    10107: (ConnectionLost, ""),
    10058: (ConnectionLost, ""),
    11600: (ConnectionLost, ""),
    11602: (ConnectionLost, ""),
    13435: (ConnectionLost, ""),
    13436: (ConnectionLost, ""),
    # what a person must change
    2: (FixError, ""),
    9: (FixError, ""),
    14: (FixError, ""),
    20: (ConfigurationError, "transactions need a replica set or a sharded cluster, not a standalone server"),
    59: (FixError, "is this a MongoDB 5.0 or newer?"),
    72: (FixError, ""),
    73: (FixError, ""),
    85: (FixError, "an index of this name exists with other options: drop it, then run `fencepost schema apply`"),
    86: (FixError, "an index of this name exists with other keys: drop it, then run `fencepost schema apply`"),
    115: (FixError, "is this a MongoDB 5.0 or newer?"),
    121: (FixError, "the collection's validator refuses what the relay writes: let it allow the outbox's fields"),
    166: (FixError, ""),
    303: (FixError, "is this a MongoDB 5.0 or newer?"),
    10334: (FixError, _LARGE),
    17280: (FixError, ""),
    17419: (FixError, _LARGE),
}

_CLASSES: tuple[tuple[type[BaseException], type[FencepostError], str], ...] = (
    (pm.InvalidURI, ConfigurationError, ""),
    (pm.ConfigurationError, ConfigurationError, ""),
    (pm.InvalidName, ConfigurationError, ""),
    (pm.CollectionInvalid, FixError, ""),
    (pm.DocumentTooLarge, FixError, _LARGE),
    (pm.EncryptionError, FixError, ""),
    (pm.ExecutionTimeout, DeadlineExceeded, _CLOCK),
    (pm.WTimeoutError, DeadlineExceeded, SILENT),
    (pm.WaitQueueTimeoutError, DeadlineExceeded, SILENT),
    (pm.NetworkTimeout, DeadlineExceeded, SILENT),
    (pm.ServerSelectionTimeoutError, ConnectionLost, _NO_PRIMARY),
    (pm.AutoReconnect, ConnectionLost, ""),
    (pm.ConnectionFailure, ConnectionLost, ""),
    (pm.ProtocolError, ConnectionLost, ""),
    (pm.InvalidOperation, ConnectionLost, ""),  # the client was closed
    (pm.CursorNotFound, ConnectionLost, ""),
    (TimeoutError, DeadlineExceeded, SILENT),
    (OSError, ConnectionLost, ""),
    (bson_errors.BSONError, FixError, ""),
)


def fault_of(error: BaseException, place: str) -> FencepostError:
    """The error of a call to the database at ``place``."""
    code, said = _code(error), _said(error)
    text = f"{place}: {said or type(error).__name__}"
    if isinstance(error, pm.ServerSelectionTimeoutError) and "authentication" in said.lower():
        return AccessDenied(text, remedy="check user, password and authSource")
    if isinstance(error, pm.ServerSelectionTimeoutError) and _GARBLED.search(said):
        return ConnectionLost(text, remedy=_ANOTHER)
    kind, remedy = _CODES.get(code, (None, ""))
    if kind is not None:
        return kind(text, remedy=remedy)
    for cls, kind, remedy in _CLASSES:
        if isinstance(error, cls):
            return kind(text, remedy=remedy)
    return Unavailable(text)


def is_transient(error: BaseException) -> bool:
    """Whether the driver says that the whole transaction may be tried again."""
    return isinstance(error, pm.PyMongoError) and error.has_error_label("TransientTransactionError")


def _code(error: BaseException) -> int:
    """The server's number for what happened: of the first failure, where there are many."""
    if isinstance(error, pm.BulkWriteError):
        details: Mapping[str, Any] = error.details or {}
        failures = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
        return int(failures[0].get("code", 0)) if failures else 0
    code = getattr(error, "code", None)
    return int(code) if isinstance(code, int) else 0


def _said(error: BaseException) -> str:
    """The error's own text, without the server's whole answer behind it."""
    if isinstance(error, pm.BulkWriteError):
        details: Mapping[str, Any] = error.details or {}
        failures = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
        texts = [str(failure.get("errmsg", "")) for failure in failures[:1]]
        return " ".join(" ".join(texts).split())
    text = str(error).partition(", full error:")[0].partition(", Timeout:")[0]
    return " ".join(text.split())[:500]
