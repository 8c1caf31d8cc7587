"""What sqlite3 and aiosqlite raise, as one of the four families."""

from __future__ import annotations

import sqlite3

from fencepost.errors import ConnectionLost, DeadlineExceeded, FencepostError, FixError, Unavailable
from fencepost.sql import faults

ERRORS = (sqlite3.Error, OSError, ValueError)
"""Everything that a call can raise when the file, the disk or the driver is at fault."""

_CODES: dict[int, type[FencepostError]] = {
    sqlite3.SQLITE_CANTOPEN: FixError,
    sqlite3.SQLITE_CORRUPT: FixError,
    sqlite3.SQLITE_NOTADB: FixError,
    sqlite3.SQLITE_FULL: Unavailable,
    sqlite3.SQLITE_IOERR: Unavailable,
    sqlite3.SQLITE_INTERRUPT: ConnectionLost,
}


def fault_of(error: Exception, place: str) -> FencepostError:
    """The error of a call to the file at ``place``."""
    text = f"{place}: {str(error) or type(error).__name__}"
    if isinstance(error, TimeoutError):
        return DeadlineExceeded(text)
    kind = _CODES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    if kind is None and isinstance(error, ValueError):
        kind = FixError  # a row that none of our writers has written
    if kind is not None:
        return kind(text, remedy=faults.remedy_of(error))
    return faults.fault_of(error, place) or Unavailable(text)
