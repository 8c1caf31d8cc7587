"""What asyncpg raises, as one of the four families."""

from __future__ import annotations

from asyncpg import exceptions as apg

from fencepost.errors import (
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    FixError,
    Unavailable,
)
from fencepost.faults import Verdict
from fencepost.sql import faults

ERRORS = (apg.PostgresError, apg.InterfaceError, apg.InternalClientError, OSError, ValueError, OverflowError)
"""Everything that a call can raise when the server, the network or the driver is at fault."""

_POOLER = "connect directly, or through a pooler in session mode"

# What means something else to a session than to a single statement.
_STATES: dict[str, Verdict] = {
    "25006": (ConnectionLost, ""),  # the server became a standby: there may be a new primary
    "25P03": (ConnectionLost, ""),
    "25P04": (ConnectionLost, ""),
    "26000": (FixError, _POOLER),  # the prepared statement is in another server process
    "42P05": (FixError, _POOLER),
    "57014": (DeadlineExceeded, ""),
    "57P04": (ConnectionLost, ""),
}

_CLASSES: tuple[tuple[type[BaseException], type[FencepostError]], ...] = (
    (TimeoutError, DeadlineExceeded),
    (apg.InvalidCachedStatementError, ConnectionLost),  # the tables were altered: a new session prepares anew
    (apg.OutdatedSchemaCacheError, ConnectionLost),
    (apg.TargetServerAttributeNotMatched, Unavailable),
    (apg.ConnectionRejectionError, Unavailable),
    (apg.ClientConfigurationError, ConfigurationError),
    (apg.UnsupportedClientFeatureError, FixError),
    (apg.UnsupportedServerFeatureError, FixError),
    (apg.InternalClientError, ConnectionLost),  # asyncpg was in the middle of something when the connection ended
    (OSError, ConnectionLost),
    (ValueError, FixError),  # a value that Python cannot hold, for example the time "infinity"
    (OverflowError, FixError),
)


def fault_of(error: BaseException, place: str) -> FencepostError:
    """The error of a call to the database at ``place``."""
    kind, remedy = _STATES.get(getattr(error, "sqlstate", None) or "", (None, ""))
    if kind is None and faults.is_about_tls(error):
        kind = ConfigurationError
    if kind is None:
        kind = next((kind for cls, kind in _CLASSES if isinstance(error, cls)), None)
    if kind is not None:
        said = " ".join(str(error).split())
        if isinstance(error, apg.InternalClientError) and "another operation" in said:  # the library about its insides
            said = "the connection ended in the middle of a call"
        text = f"{place}: {said or type(error).__name__}"
        return kind(text, remedy=remedy or faults.remedy_of(error))
    known = faults.fault_of(error, place) if isinstance(error, Exception) else None
    return known or Unavailable(f"{place}: {error!r}")
