"""Where an outbox in PostgreSQL is, and how every connection to it is made."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import asyncpg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import asyncpg as sqlalchemy_asyncpg

from fencepost.databases.postgresql.faults import ERRORS, fault_of
from fencepost.errors import FencepostError
from fencepost.ports import DatabaseOptions
from fencepost.sql import cockroachdb
from fencepost.sql import schema as ddl
from fencepost.sql.faults import greeting
from fencepost.sql.outbox import channel
from fencepost.sql.place import OnServer, SqlOutbox
from fencepost.sql.postgresql_address import dsn_of

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

_ABSENT = "SELECT name FROM unnest($1::text[]) AS t (name) WHERE to_regclass(name) IS NULL"
_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"
_INDEXES = """
    SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indrelid = to_regclass($1) AND indisvalid
"""


class Outbox(SqlOutbox, OnServer):
    """One outbox."""

    errors = ERRORS

    def __init__(self, options: DatabaseOptions) -> None:
        self.dsn = dsn_of(options.url)
        parts = urlsplit(self.dsn)
        place = f"PostgreSQL {parts.netloc.rpartition('@')[2]}{parts.path}"
        super().__init__(options, place, sqlalchemy_asyncpg.dialect())  # type: ignore[no-untyped-call]
        self.channel = channel(options.schema, options.prefix)

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

    async def end(self, connection: Any) -> None:
        """See OnServer."""
        connection.terminate()

    async def missing(self, connection: Any) -> list[sa.Table]:
        """See SqlOutbox."""
        tables = ddl.all_tables(self.tables)
        absent = {name for (name,) in await connection.fetch(_ABSENT, [self.quoted(table) for table in tables])}
        return [table for table in tables if self.quoted(table) in absent]

    async def parts(self, connection: Any, table: sa.Table) -> tuple[list[str], list[str]]:
        """See SqlOutbox."""
        name = self.quoted(table)
        columns, indexes = await connection.fetch(_COLUMNS, name), await connection.fetch(_INDEXES, name)
        return [name for (name,) in columns], [name for (name,) in indexes]

    def family(self, error: BaseException) -> FencepostError:
        """See OnServer."""
        return fault_of(error, self.place)
