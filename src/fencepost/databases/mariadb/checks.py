"""What a relay needs of a server and its tables, and what can be wrong with them though every statement works."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fencepost.databases.mariadb.connection import Connection, Outbox
from fencepost.databases.mariadb.faults import ERRORS
from fencepost.errors import AccessDenied, ConfigurationError, FixError, SchemaMissing, Unavailable, raise_together
from fencepost.sql import schema as ddl
from fencepost.sql.faults_mariadb import APPLY, READ_ONLY

OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0)}
"""From these on there are JSON_TABLE, SKIP LOCKED, and positions that survive a restart."""

_SERVER = """
    SELECT @@hostname, @@port, @@server_id, VERSION(), @@global.read_only, @@global.log_bin, @@session.binlog_format,
        @@global.innodb_flush_log_at_trx_commit
"""
_TABLES = "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?"
_COLUMNS = """
    SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLLATION_NAME, DATETIME_PRECISION, EXTRA
    FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ?
"""
_INDEXES = """
    SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA = ? AND SEQ_IN_INDEX = 1
"""
_DENIED = re.compile(r"(?P<rights>[A-Z, ]+) command denied to user .* for table (?P<table>\S+)")

_EXACT = ("topic", "key", "id", "name", "owner", "relay")
_TIMES = ("occurred_at", "available_at", "settled_at", "parked_at", "acquired_at", "expires_at")


class Server(NamedTuple):
    """What a server says of itself."""

    host: str
    port: int
    number: int
    version: str
    read_only: object
    binary_log: object
    binary_log_format: str
    flushed_at_commit: int

    @property
    def same(self) -> tuple[str, int, int]:
        """What tells two servers apart."""
        return self.host, self.port, self.number


async def server_of(connection: Connection) -> Server:
    """Ask a server."""
    row = await connection.first(_SERVER)
    return Server(*row)


def check_server(outbox: Outbox, server: Server) -> None:
    """Raise Unavailable where it takes no writes, FixError where it cannot serve as an outbox."""
    if str(server.read_only).upper() not in {"0", "OFF"}:
        raise Unavailable(f"{outbox.place} is read-only", remedy=READ_ONLY)
    kind = "MariaDB" if "mariadb" in server.version.lower() else "MySQL"
    numbers = tuple(int(part) for part in re.findall(r"\d+", server.version)[:2])
    if numbers < OLDEST[kind]:
        oldest = ".".join(map(str, OLDEST[kind]))
        what = f"{outbox.place} is a {kind} {server.version}"
        raise ConfigurationError(what, remedy=f"an outbox needs {kind} {oldest} or later")
    if server.binary_log and server.binary_log_format == "STATEMENT":
        raise ConfigurationError(
            f"{outbox.place} keeps a binary log of statements, which cannot hold what a relay writes",
            remedy="SET GLOBAL binlog_format = ROW (or MIXED)",
        )


async def check_tables(outbox: Outbox, connection: Connection) -> None:
    """Raise FixError for all that is wrong with the tables, SchemaMissing where only something of them is missing."""
    database = outbox.database
    engines: dict[str, Any] = dict(await connection.rows(_TABLES, database))
    ours = {table.name: table for table in (outbox.tables.outbox, outbox.tables.parked)}
    known = {table.name: table for table in outbox.tables.metadata.tables.values()}
    columns = [row for row in await connection.rows(_COLUMNS, database) if row[0] in known]
    indexes = {(table, column) for table, _, column in await connection.rows(_INDEXES, database)}
    wrong = _wrong(outbox, {n: e for n, e in engines.items() if n in known}, columns, indexes)
    errors = [FixError(f"{outbox.place}: {what}", remedy=remedy) for what, remedy in wrong]
    if missing := sorted(name for name in ours if name not in engines):
        errors.append(SchemaMissing(f"{outbox.place} has no table {', '.join(missing)}", remedy=APPLY))
    there = [table for table in ddl.of_a_relay(outbox.tables) if table.name in engines]
    lacking = await outbox.lacking(connection, there)
    if untold := [name for name in lacking if not any(name in error.remedy for error in errors)]:
        errors.append(SchemaMissing(f"{outbox.place} lacks {', '.join(untold)}", remedy=APPLY))
    raise_together(errors, outbox.place)


def _wrong(
    outbox: Outbox, engines: dict[str, Any], columns: Sequence[tuple[Any, ...]], indexes: set[tuple[Any, Any]]
) -> Iterator[tuple[str, str]]:
    for name, engine in engines.items():
        if str(engine).lower() != "innodb":
            yield (
                f"the table {name} has the engine {engine}, which has no transactions",
                _alter(name, "ENGINE = InnoDB"),
            )
    for name, column, kind, collation, precision, _ in columns:
        yield from _wrong_column(outbox, name, column, kind, collation, precision)
    yield from _wrong_keys(outbox, columns, indexes)


def _wrong_column(
    outbox: Outbox, table: str, column: str, kind: str, collation: str | None, precision: int | None
) -> Iterator[tuple[str, str]]:
    known = {t.name: t for t in outbox.tables.metadata.tables.values()}[table].c
    if column not in known:
        return
    wanted = known[column].type.compile(dialect=outbox.dialect)
    remedy = _alter(table, f"MODIFY `{column}` {wanted}{'' if known[column].nullable else ' NOT NULL'}")
    if column in _EXACT and collation is not None and not collation.endswith("_bin"):
        yield f"the column {column} of {table} takes texts that differ in case for the same ({collation})", remedy
    if column in _TIMES and (kind.lower() != "datetime" or precision != 6):
        yield f"the column {column} of {table} is {kind}({precision or 0}): microseconds in UTC would be lost", remedy


def _wrong_keys(
    outbox: Outbox, columns: Sequence[tuple[Any, ...]], indexes: set[tuple[Any, Any]]
) -> Iterator[tuple[str, str]]:
    name = outbox.tables.outbox.name
    if not any(row[0] == name for row in columns):
        return
    counts = any(row[:2] == (name, "seq") and "auto_increment" in str(row[5]).lower() for row in columns)
    if not counts:
        yield f"no sequence numbers {name}.seq", _alter(name, "MODIFY seq BIGINT NOT NULL AUTO_INCREMENT")
    if (name, "seq") not in indexes:
        yield f"the table {name} has no index that begins with seq", _alter(name, "ADD PRIMARY KEY (seq)")
    if (name, "available_at") not in indexes:
        added = f"ADD INDEX `{name}_due` (available_at)"
        yield (
            f"the table {name} has no index on available_at, so that each look would read all of it",
            _alter(name, added),
        )


def _alter(table: str, change: str) -> str:
    return f"ALTER TABLE `{table}` {change}"


async def prepare_all(outbox: Outbox, connection: Connection, texts: Sequence[str]) -> None:
    """Prepare statements. Raises AccessDenied with all that is to be granted, or what the first other error means."""
    denied: dict[str, set[str]] = {}
    for text in texts:
        try:
            await connection.prepare(text)
        except ERRORS as error:
            found = _DENIED.search(str(error))
            if found is None or not isinstance(outbox.fault_of(error), AccessDenied):
                raise
            denied.setdefault(found["table"].rstrip('")'), set()).add(found["rights"].strip())
    if denied:
        grants = "; ".join(f"GRANT {', '.join(sorted(rights))} ON {table} TO ..." for table, rights in denied.items())
        raise AccessDenied(f"{outbox.place}: this user may not do all that a relay does", remedy=grants)


def advice(outbox: Outbox, server: Server) -> Sequence[str]:
    """What would make this server a better outbox, one line each."""
    if server.flushed_at_commit == 1:
        return ()
    return (
        f"{outbox.place} does not flush its log at each commit (innodb_flush_log_at_trx_commit ="
        f" {server.flushed_at_commit}): after a crash it has lost the last messages that were committed; set it to 1",
    )
