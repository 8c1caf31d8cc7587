"""What a SQL database's error means to the caller: one of the four families.

It is told by what the server says (SQLSTATE, SQLite's result code), so that no driver need be known here.
"""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, InvalidRequestError

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    Contention,
    FencepostError,
    FixError,
    SchemaMissing,
    Unavailable,
)

APPLY = "run `fencepost schema apply`"

_SQLSTATES: dict[str, type[FencepostError]] = {
    "08": ConnectionLost,
    "0A": FixError,
    "22": FixError,
    "23": FixError,
    "25006": Unavailable,  # read only: a standby, until it is promoted
    "26": Unavailable,  # a prepared statement is not there: a pooler changed the server under us
    "28": AccessDenied,
    "3D000": ConfigurationError,  # no such database
    "3F000": SchemaMissing,
    "40": Contention,
    "42": FixError,
    "42501": AccessDenied,
    "42703": SchemaMissing,  # no such column: the tables are of another version
    "42P01": SchemaMissing,
    "55P03": Contention,
    "57014": Contention,  # cancelled, by a statement timeout for example
    "57P01": ConnectionLost,
    "57P02": ConnectionLost,
    "57P05": ConnectionLost,
}

_SQLITE_CODES: dict[int, type[FencepostError]] = {
    3: AccessDenied,  # SQLITE_PERM
    5: Contention,  # SQLITE_BUSY
    6: Contention,  # SQLITE_LOCKED
    8: AccessDenied,  # SQLITE_READONLY
    11: ConfigurationError,  # SQLITE_CORRUPT
    14: SchemaMissing,  # SQLITE_CANTOPEN: most often there is no such file yet
    23: AccessDenied,  # SQLITE_AUTH
    26: ConfigurationError,  # SQLITE_NOTADB
}


def fault_of(error: Exception, place: str) -> FencepostError | None:
    """The error of a call to the database at ``place``, as its family; None where it has nothing to do with one."""
    if isinstance(error, FencepostError):
        return error
    said = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    kind = _kind(said)
    if kind is None and isinstance(error, OSError):
        kind = Unavailable
    if kind is None and isinstance(error, DBAPIError | InvalidRequestError):
        kind = ConnectionLost  # without a word from the server: the connection is closed, or cannot be used any more
    return None if kind is None else kind(f"{place}: {_line(said)}", remedy=APPLY if kind is SchemaMissing else "")


def _kind(said: BaseException) -> type[FencepostError] | None:
    state = getattr(said, "sqlstate", None)
    if state is not None:
        return _SQLSTATES.get(state) or _SQLSTATES.get(state[:2], Unavailable)
    code = getattr(said, "sqlite_errorcode", None)
    if code is not None:
        missing = "no such table" in str(said) or "no such column" in str(said)
        return SchemaMissing if missing else _SQLITE_CODES.get(code & 0xFF, Unavailable)
    return ConnectionLost if type(said).__module__.partition(".")[0] in {"asyncpg", "sqlite3"} else None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
