"""What asyncmy raises, as one of the four families."""

from __future__ import annotations

from asyncmy import errors

from fencepost.errors import ConfigurationError, ConnectionLost, DeadlineExceeded, FencepostError, FixError, Unavailable
from fencepost.sql import faults, faults_mariadb

ERRORS = (errors.MySQLError, OSError, ValueError)
"""Everything that a call can raise when the server, the network or the driver is at fault."""

# What means something else to a session than to a single statement.
_CODES: dict[int, type[FencepostError]] = {
    1290: ConnectionLost,  # the server was closed for writers: there may be a new primary
    1792: ConnectionLost,
    1836: ConnectionLost,
    1969: DeadlineExceeded,  # max_statement_time
    3024: DeadlineExceeded,
    **dict.fromkeys((2002, 2003, 2005), Unavailable),
}


def fault_of(error: BaseException, place: str) -> FencepostError:
    """The error of a call to the database at ``place``."""
    if faults.is_about_tls(error) or (error.__cause__ is not None and faults.is_about_tls(error.__cause__)):
        about = error.__cause__ or error
        return ConfigurationError(f"{place}: {_said(error)}", remedy=faults.remedy_of(about))
    if isinstance(error, FileNotFoundError | PermissionError):  # of TLS: that of a socket comes as 2003
        return ConfigurationError(f"{place}: {_said(error)}", remedy=faults_mariadb.TLS)
    code = faults_mariadb.code_of(error)
    kind = _CODES.get(code or 0)
    if kind is None and isinstance(error, TimeoutError):
        kind = DeadlineExceeded
    if kind is None and isinstance(error, OSError):
        kind = ConnectionLost
    if kind is None and isinstance(error, ValueError):
        kind = FixError  # a value that none of our writers has written
    if kind is not None:
        return kind(f"{place}: {_said(error)}", remedy=faults.remedy_of(error))
    known = faults.fault_of(error, place) if isinstance(error, Exception) else None
    return known or Unavailable(f"{place}: {error!r}")


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
