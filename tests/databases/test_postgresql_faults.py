"""Every error of asyncpg belongs to one of the four families, and to the right one."""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl

import pytest
from asyncpg import exceptions as apg

from fencepost.databases import postgresql
from fencepost.databases.postgresql.connection import Outbox
from fencepost.databases.postgresql.faults import ERRORS, fault_of
from fencepost.elections.sql import lease_store
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    Contention,
    DeadlineExceeded,
    FencepostError,
    FixError,
    RetryError,
    SchemaMissing,
    Unavailable,
)
from fencepost.ports import DatabaseOptions, LeaseOptions
from fencepost.sql import faults
from fencepost.sql.postgresql_address import dsn_of

CLASSES = sorted(
    (
        cls
        for cls in vars(apg).values()
        if inspect.isclass(cls) and issubclass(cls, Exception) and not issubclass(cls, Warning)
    ),
    key=lambda cls: str(cls.__name__),
)

EXPECTED: dict[type[Exception], type[FencepostError]] = {
    apg.AdminShutdownError: ConnectionLost,
    apg.CannotConnectNowError: Unavailable,
    apg.ClientCannotConnectError: ConnectionLost,
    apg.ClientConfigurationError: ConfigurationError,
    apg.ConnectionDoesNotExistError: ConnectionLost,
    apg.ConnectionFailureError: ConnectionLost,
    apg.ConnectionRejectionError: Unavailable,
    apg.CrashShutdownError: ConnectionLost,
    apg.DatabaseDroppedError: ConnectionLost,
    apg.DeadlockDetectedError: Contention,
    apg.DiskFullError: Unavailable,
    apg.IdleInTransactionSessionTimeoutError: ConnectionLost,
    apg.IdleSessionTimeoutError: ConnectionLost,
    apg.InsufficientPrivilegeError: AccessDenied,
    apg.InterfaceError: ConnectionLost,
    apg.InvalidAuthorizationSpecificationError: AccessDenied,
    apg.InvalidCachedStatementError: ConnectionLost,
    apg.InvalidCatalogNameError: FixError,
    apg.InvalidPasswordError: AccessDenied,
    apg.InvalidSchemaNameError: SchemaMissing,
    apg.InvalidTextRepresentationError: FixError,
    apg.LockNotAvailableError: Contention,
    apg.OutOfMemoryError: Unavailable,
    apg.OutdatedSchemaCacheError: ConnectionLost,
    apg.PostgresSyntaxError: FixError,
    apg.QueryCanceledError: DeadlineExceeded,
    apg.ReadOnlySQLTransactionError: ConnectionLost,
    apg.SerializationError: Contention,
    apg.TargetServerAttributeNotMatched: Unavailable,
    apg.TooManyConnectionsError: Unavailable,
    apg.UndefinedColumnError: SchemaMissing,
    apg.UndefinedTableError: SchemaMissing,
    apg.UniqueViolationError: FixError,
    apg.UnsupportedServerFeatureError: FixError,
}


def test_the_driver_has_the_classes_that_are_walked() -> None:
    assert len(CLASSES) > 200
    assert set(EXPECTED) <= set(CLASSES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_belongs_to_a_family(cls: type[Exception]) -> None:
    """And is caught: what is not in ERRORS would pass a session unmapped."""
    error = cls("what the server said\nin two lines")
    fault = fault_of(error, "PostgreSQL here")
    assert isinstance(error, ERRORS)
    assert isinstance(fault, FixError | RetryError)
    assert fault.what == "PostgreSQL here: what the server said in two lines"


@pytest.mark.parametrize(("cls", "family"), EXPECTED.items(), ids=lambda cls: cls.__name__)
def test_the_family_is_what_the_caller_should_do(cls: type[Exception], family: type[FencepostError]) -> None:
    assert isinstance(fault_of(cls("said"), "here"), family)


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (TimeoutError(), DeadlineExceeded),
        (TimeoutError(110, "Connection timed out"), DeadlineExceeded),
        (ConnectionResetError(), ConnectionLost),
        (OSError("Multiple exceptions"), ConnectionLost),
        (ssl.SSLCertVerificationError("self-signed certificate"), ConfigurationError),
        (ValueError("Invalid isoformat string: 'infinity'"), FixError),
    ],
    ids=str,
)
def test_the_network_and_the_values_have_families_too(error: Exception, family: type[FencepostError]) -> None:
    assert type(fault_of(error, "here")) is family


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (apg.InvalidPasswordError('password authentication failed for user "x"'), "check user and password in the URL"),
        (apg.InvalidAuthorizationSpecificationError('role "x" does not exist'), "CREATE ROLE"),
        (apg.InvalidAuthorizationSpecificationError('role "x" is not permitted to log in'), "ALTER ROLE x LOGIN"),
        (
            apg.InvalidAuthorizationSpecificationError('no pg_hba.conf entry for host "h", user "u", no encryption'),
            "sslmode=require",
        ),
        (
            apg.InvalidAuthorizationSpecificationError('no pg_hba.conf entry for host "h", user "u", SSL encryption'),
            "pg_hba.conf",
        ),
        (apg.InvalidAuthorizationSpecificationError("in another language"), "pg_hba.conf"),
        (apg.InvalidCatalogNameError('database "x" does not exist'), "createdb"),
        (apg.InvalidSchemaNameError('schema "x" does not exist'), "fencepost schema apply"),
        (apg.UndefinedTableError('relation "x" does not exist'), "fencepost schema apply"),
        (apg.UndefinedColumnError('column "x" does not exist'), "fencepost schema apply"),
        (apg.InsufficientPrivilegeError("permission denied for schema shop"), "GRANT USAGE ON SCHEMA shop"),
        (apg.InsufficientPrivilegeError("permission denied for database shop"), "GRANT CREATE ON DATABASE shop"),
        (apg.InsufficientPrivilegeError("permission denied for table orders"), "GRANT ... ON orders TO"),
        (apg.InsufficientPrivilegeError("in another language"), "grant this user what is missing"),
        (apg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction"), "name the primary"),
        (apg.TooManyConnectionsError("sorry, too many clients already"), "max_connections"),
        (apg.DiskFullError("no space left"), "make room"),
        (apg.CannotConnectNowError("the database system is starting up"), "wait"),
        (ConnectionRefusedError(111, "Connect call failed"), "check host and port"),
        (socket.gaierror(-2, "Name or service not known"), "check host and port"),
        (OSError("Multiple exceptions: [Errno 111] ..., [Errno 111] ..."), "check host and port"),
        (ConnectionError('PostgreSQL server at "h:5" rejected SSL upgrade'), "sslmode=prefer"),
        (ssl.SSLCertVerificationError("self-signed certificate"), "sslrootcert"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_person_is_told_what_to_do(error: Exception, remedy: str) -> None:
    """By the relay's own connections and by the lease store's, which come another way."""
    assert remedy in fault_of(error, "here").remedy
    shared = faults.fault_of(error, "here")
    assert shared is not None
    assert remedy in shared.remedy


def test_a_server_without_tls_is_not_waited_for() -> None:
    refused = ConnectionError('PostgreSQL server at "h:5" rejected SSL upgrade')
    for fault in (fault_of(refused, "here"), faults.fault_of(refused, "here")):
        assert type(fault) is ConfigurationError


@pytest.mark.parametrize(
    ("answer", "terms", "family"),
    [
        (b"E", "", Unavailable),
        (b"", "?sslmode=prefer", Unavailable),
        (b"N", "?sslmode=require", ConfigurationError),
    ],
)
async def test_an_answer_that_was_cut_off_is_no_refusal_of_tls(answer: bytes, terms: str, family: type) -> None:
    """Neither to the relay's own connections nor to the lease store's; D5."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        url = f"postgresql://somebody@127.0.0.1:{server.sockets[0].getsockname()[1]}/shop{terms}"
        with pytest.raises(family):
            await postgresql.source(DatabaseOptions(url=url)).connect()
        store = lease_store(LeaseOptions(url=url))
        with pytest.raises(family):
            await store.open()
        await store.close()


def test_a_connection_that_ended_is_no_wrong_address() -> None:
    assert fault_of(ConnectionResetError(104, "Connection reset by peer"), "here").remedy == ""


def test_a_pooler_that_changes_the_server_is_named() -> None:
    assert "session mode" in fault_of(apg.InvalidSQLStatementNameError("no such statement"), "here").remedy


@pytest.mark.parametrize(
    ("url", "dsn"),
    [
        ("postgresql://u@h:5/d", "postgresql://u@h:5/d?application_name=fencepost"),
        ("postgres://u@h:5/d", "postgresql://u@h:5/d?application_name=fencepost"),
        ("postgresql+asyncpg://u:p%40@h/d?ssl=require", "postgresql://u:p%40@h/d?application_name=fencepost&sslmode=require"),
        ("postgresql+psycopg://h/d?ssl=true&connect_timeout=3", "postgresql://h/d?application_name=fencepost&sslmode=require"),
        ("postgresql://h/d?application_name=mine&sslmode=verify-full", "postgresql://h/d?application_name=mine&sslmode=verify-full"),
        ("postgresql:///d?host=/run/pg", "postgresql:///d?application_name=fencepost&host=%2Frun%2Fpg"),
    ],
)  # fmt: skip
def test_urls_of_other_drivers_are_understood(url: str, dsn: str) -> None:
    assert dsn_of(url) == dsn


@pytest.mark.parametrize("url", ["mysql://h/d", "h/d", "", "sqlite:///x"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        dsn_of(url)


def test_no_error_shows_the_password() -> None:
    place = Outbox(DatabaseOptions(url="postgresql://user:secret@host:5/d?password=secret")).place
    assert place == "PostgreSQL host:5/d"


def test_the_insides_of_the_library_are_no_cause() -> None:
    fault = fault_of(apg.InternalClientError("cannot switch to state 11; another operation (2) is in progress"), "P")
    assert isinstance(fault, ConnectionLost)
    assert str(fault).startswith("P: the connection ended in the middle of a call")
