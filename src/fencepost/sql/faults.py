"""What a SQL database's error means to the caller: one of the four families, and what to do about it.

It is told by what the server says (SQLSTATE, SQLite's result code, MariaDB's number), so that no driver need be known
here.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

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
from fencepost.faults import UNREACHABLE
from fencepost.sql import faults_mariadb, faults_other

APPLY = faults_mariadb.APPLY
SILENT = (
    "look at the server and at the network between: it takes connections, or loses them, without an answer; or it is"
    " another kind of server than the URL says"
)
ANOTHER = "what answers there speaks another protocol: check host and port in the URL"
_NOT_GREETED = "the server did not answer the question whether it speaks TLS"
_STARTING = "is the server starting or ending, or is it another kind of server? check host and port in the URL"

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

READ_ONLY = (
    "the server is a standby, or this user's transactions are read-only: name the primary, or all hosts and"
    " target_session_attrs=primary, and look at default_transaction_read_only"
)
_RIGHTS = "docs/postgresql.md lists the rights of the application and of the relay"

# By SQLSTATE, or by its class where all of it means the same.
_REMEDIES: dict[str, str] = {
    "25006": READ_ONLY,
    "28": "look at the server's pg_hba.conf, and at the user and the database in the URL",
    "28P01": 'check user and password in the URL; "${NAME}" there takes the environment variable NAME',
    "3D000": "create the database (createdb), or name another one in the URL",
    "3F000": APPLY,
    "42501": f"grant this user what is missing, or name another user in the URL; {_RIGHTS}",
    "42703": APPLY,
    "42P01": APPLY,
    "53100": "make room on the server's disk",
    "53200": "give the server more memory, or let it do less at once",
    "53300": "close connections, or raise max_connections or the role's CONNECTION LIMIT: a relay that leads has three,"
    " one that stands by has one",
    "57P03": "wait: the server is starting, stopping or recovering",
}

_TLS_WANTED = "the server takes this user only with TLS, or not from here: add sslmode=require to the URL, or a line to"
_HINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"no pg_hba\.conf entry .*(?:no encryption|SSL off)"), f"{_TLS_WANTED} pg_hba.conf"),
    (
        re.compile(r"no pg_hba\.conf entry "),
        "add a line for this host, user and database to the server's pg_hba.conf; where it has one for connections"
        " without TLS, add sslmode=disable to the URL",
    ),
    (
        re.compile(r'role "(?P<name>.*)" does not exist'),
        "create it (CREATE ROLE ... LOGIN), or name another user in the URL",
    ),
    (
        re.compile(r'role "(?P<name>.*)" is not permitted to log in'),
        "ALTER ROLE {name} LOGIN, or name another user in the URL",
    ),
    (
        re.compile(r"permission denied for schema (?P<name>.*)"),
        "GRANT USAGE ON SCHEMA {name} TO ... (and CREATE, for who is to create the tables there)",
    ),
    (
        re.compile(r"permission denied for database (?P<name>.*)"),
        "GRANT CREATE ON DATABASE {name} TO ..., or let somebody else create the schema",
    ),
    (
        re.compile(r"permission denied for (?:table|relation|sequence) (?P<name>.*)"),
        f"GRANT ... ON {{name}} TO ...; {_RIGHTS}",
    ),
)
"""What the same SQLSTATE leaves open is told by the text, where the server speaks English."""

_INSISTS = re.compile(r"[?&](sslmode|ssl)=(require|verify|true|1)", re.IGNORECASE)
_TLS_REFUSED = "turn TLS on at the server (ssl = on), or write sslmode=prefer or sslmode=disable in the URL"
_NOT_TRUSTED = (
    "name the authority's certificate in the URL (sslrootcert=FILE), and the host as the server's own one does"
)

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


_SQLITE_REMEDIES: dict[int, str] = {
    3: "let the user of this process read and write the file and its folder",
    8: "let the user of this process write to the file and its folder",
    11: "restore the file from a backup",
    13: "make room on the disk",  # SQLITE_FULL
    14: f"check that its folder exists and may be used, then {APPLY}",
    26: "check the path: the file is something else",
}


def fault_of(error: Exception, place: str) -> FencepostError | None:
    """The error of a call to the database at ``place``, as its family; None where it has nothing to do with one."""
    if isinstance(error, FencepostError):
        return error
    said = _said(error)
    kind = _kind(said)
    if kind is None and isinstance(error, OSError):
        kind = ConfigurationError if is_about_tls(error) else Unavailable
    if kind is None and isinstance(error, DBAPIError | InvalidRequestError):
        kind = ConnectionLost  # without a word from the server: the connection is closed, or cannot be used any more
    return None if kind is None else kind(f"{place}: {_line(said)}", remedy=remedy_of(said))


def _said(error: Exception) -> BaseException:
    """The driver's own error, where SQLAlchemy or a framework such as Django has wrapped it in one of theirs."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        return error.orig
    cause = error.__cause__
    return cause if cause is not None and _code_of(cause) and not _code_of(error) else error


def _code_of(error: BaseException) -> object:
    return _state(error) or getattr(error, "sqlite_errorcode", None) or faults_mariadb.code_of(error)


def _state(error: BaseException) -> str | None:
    """The SQLSTATE; psycopg 2 calls it pgcode."""
    state: str | None = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state


def remedy_of(said: BaseException) -> str:
    """What a person can do about an error; "" where nothing is known."""
    if (number := faults_mariadb.code_of(said)) is not None:
        return ANOTHER if faults_mariadb.is_garbled(said) else faults_mariadb.remedy_of(number, UNREACHABLE)
    if faults_other.kind_of(said) is not None:
        return faults_other.remedy_of(said, UNREACHABLE)
    if (state := _state(said)) is not None:
        return _hint(str(said)) or _REMEDIES.get(state) or _REMEDIES.get(state[:2], "")
    if (code := getattr(said, "sqlite_errorcode", None)) is not None:
        return APPLY if _is_missing(said) else _SQLITE_REMEDIES.get(code & 0xFF, "")
    if is_about_tls(said):
        return _NOT_TRUSTED if isinstance(said, ssl.SSLError) else _TLS_REFUSED
    if str(said) == _NOT_GREETED:
        return _STARTING
    was_connected = isinstance(said, ConnectionResetError | ConnectionAbortedError | BrokenPipeError | ssl.SSLError)
    return UNREACHABLE if isinstance(said, OSError) and not was_connected else ""


def _hint(text: str) -> str:
    found = ((pattern.search(text), remedy) for pattern, remedy in _HINTS)
    return next((remedy.format(**match.groupdict()) for match, remedy in found if match), "")


def is_about_tls(error: BaseException) -> bool:
    """A certificate that is not trusted, or a server without TLS: waiting does not mend either."""
    refused = isinstance(error, OSError) and "rejected SSL upgrade" in str(error)
    return refused or isinstance(error, ssl.SSLCertVerificationError)


@contextmanager
def greeting(url: str) -> Iterator[None]:
    """Around the making of a connection by asyncpg, which takes every answer but yes for a refusal of TLS.

    Where the URL does not insist on TLS, that is what a server says that is starting, ending or cut off.
    """
    try:
        yield
    except ConnectionError as error:
        if is_about_tls(error) and not _INSISTS.search(url):
            raise ConnectionResetError(_NOT_GREETED) from error
        raise


def _is_missing(said: BaseException) -> bool:
    return "no such table" in str(said) or "no such column" in str(said)


def _kind(said: BaseException) -> type[FencepostError] | None:
    if (number := faults_mariadb.code_of(said)) is not None:
        return faults_mariadb.kind_of(said, number)
    if (known := faults_other.kind_of(said)) is not None:
        return known
    state = _state(said)
    if state is not None:
        return _SQLSTATES.get(state) or _SQLSTATES.get(state[:2], Unavailable)
    code = getattr(said, "sqlite_errorcode", None)
    if code is not None:
        return SchemaMissing if _is_missing(said) else _SQLITE_CODES.get(code & 0xFF, Unavailable)
    library = type(said).__module__.partition(".")[0]
    if library == "asyncpg" and isinstance(said, ValueError):
        return ConfigurationError  # something in the URL, before any server was asked
    return ConnectionLost if library in {"asyncpg", "sqlite3"} else None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
