"""Where an outbox in PostgreSQL is, and how every connection to it is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from copy import copy
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import asyncpg as sqlalchemy_asyncpg

from fencepost.databases.postgresql.faults import ERRORS, fault_of
from fencepost.errors import ConfigurationError, ConnectionLost, DeadlineExceeded, FencepostError, Unavailable
from fencepost.plugins import name_of
from fencepost.ports import DatabaseOptions
from fencepost.sql import cockroachdb
from fencepost.sql import schema as ddl
from fencepost.sql.address import check_ports
from fencepost.sql.existing.columns import Described
from fencepost.sql.existing.statements import existing_statements
from fencepost.sql.faults import SILENT, greeting
from fencepost.sql.outbox import channel
from fencepost.sql.source import source_statements
from fencepost.sql.tables import tables

T = TypeVar("T")

_SETTINGS = """
    SET timezone = 'UTC';
    SET datestyle = 'ISO';
    -- Statistics are taken when an outbox is empty, and it matters when it is long: every plan uses an index.
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET jit = off;
    -- What the client has given up must not live on in the server, nor a transaction of a relay that is paused.
    SET statement_timeout = {timeout_ms};
    SET idle_in_transaction_session_timeout = {timeout_ms};
"""

_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"
_INDEXES = """
    SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indrelid = to_regclass($1) AND indisvalid
"""

# Parameters of URLs that other drivers know; asyncpg would hand them to the server as settings.
_OF_OTHERS = {
    "async_fallback",
    "channel_binding",
    "command_timeout",
    "connect_timeout",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "prepared_statement_cache_size",
    "prepared_statement_name_func",
    "sslcompression",
    "statement_cache_size",
    "tcp_user_timeout",
}


def dsn_of(url: str) -> str:
    """The URL as asyncpg reads it: no driver in the scheme, libpq's names, a name for pg_stat_activity.

    Raises ConfigurationError where it is not the URL of a PostgreSQL.
    """
    if name_of("database", url) != "postgresql":
        raise ConfigurationError("not the URL of a PostgreSQL", remedy="write postgresql://user@host:port/database")
    check_ports(url)
    rest, _, query = url.partition("://")[2].partition("?")
    terms = {"sslmode" if k == "ssl" else k: v for k, v in parse_qsl(query) if k not in _OF_OTHERS}
    if terms.get("sslmode", "").lower() in {"true", "1"}:
        terms["sslmode"] = "require"
    return f"postgresql://{rest}?{urlencode({'application_name': 'fencepost', **terms})}"


class Outbox:
    """One outbox. ``place`` names it in errors, without a password."""

    def __init__(self, options: DatabaseOptions) -> None:
        self.options = options
        self.dsn = dsn_of(options.url)
        parts = urlsplit(self.dsn)
        self.place = f"PostgreSQL {parts.netloc.rpartition('@')[2]}{parts.path}"
        self.dialect = sqlalchemy_asyncpg.dialect()  # type: ignore[no-untyped-call]
        existing = options.table is not None
        marked = options.settle == "mark" and not existing
        self.tables = tables(schema=options.schema, prefix=options.prefix, marked=marked, existing=existing)
        self.statements = source_statements(self.tables, self.dialect)
        self.channel = channel(options.schema, options.prefix)

    def quoted(self, table: sa.Table) -> str:
        """A table's name as it is written in a statement."""
        return ddl.quoted(table, self.dialect)

    async def open(self) -> Any:
        """A new connection. Whoever calls keeps the deadline and maps the errors."""
        with greeting(self.dsn):
            connection = await asyncpg.connect(self.dsn, timeout=None, max_cached_statement_lifetime=0)
        try:
            cockroachdb.refuse(connection.get_settings(), self.place)
            await connection.execute(_SETTINGS.format(timeout_ms=max(1, int(self.options.timeout_s * 1000))))
        except BaseException:
            connection.terminate()
            raise
        return connection

    def described(self, found: Described) -> Self:
        """The same, with the statements of an existing table. Raises FixError where it cannot be an outbox."""
        other = copy(self)
        other.statements = existing_statements(self.place, self.options, self.tables, found, self.dialect)
        return other

    async def lacking(self, connection: Any, tables: Sequence[sa.Table]) -> Mapping[str, str]:
        """What tables that are there lack of their columns and indexes, and the DDL that adds it."""
        found: dict[str, str] = {}
        for table in tables:
            name = self.quoted(table)
            columns = [column for (column,) in await connection.fetch(_COLUMNS, name)]
            indexes = [index for (index,) in await connection.fetch(_INDEXES, name)]
            found |= ddl.incomplete(table, self.dialect, columns, indexes)
        return found

    async def in_time(self, call: Awaitable[T]) -> T:
        """Await what works on new connections of its own. Raises FixError, Unavailable or DeadlineExceeded."""
        try:
            async with asyncio.timeout(self.options.timeout_s):
                return await call
        except FencepostError:
            raise
        except ERRORS as error:
            fault = self.fault_of(error)
            if isinstance(fault, ConnectionLost):
                fault = Unavailable(fault.what, remedy=fault.remedy)
            raise fault from error

    def fault_of(self, error: BaseException) -> FencepostError:
        """The family of an error. One without a text is our own deadline."""
        if isinstance(error, TimeoutError) and not str(error):
            text = f"{self.place} did not answer within {self.options.timeout_s:g} s"
            return DeadlineExceeded(text, remedy=SILENT)
        return fault_of(error, self.place)
