"""What a relay needs of a server and its tables, and what can be wrong with a server though every statement works."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fencepost.databases.other_sql.connection import Outbox, rows
from fencepost.errors import ConfigurationError, SchemaMissing
from fencepost.sql.faults import APPLY

SERVER = {
    "mssql": "SELECT is_read_committed_snapshot_on FROM sys.databases WHERE database_id = DB_ID()",
    "oracle": "SELECT value FROM nls_database_parameters WHERE parameter = 'NLS_CHARACTERSET'",
}
"""What is asked of a server: one value."""


async def check(outbox: Outbox, connection: AsyncConnection) -> None:
    """Raise SchemaMissing or ConfigurationError where this cannot be an outbox."""
    if outbox.name in SERVER:
        ((told,),) = await rows(connection, sa.text(SERVER[outbox.name]))
        await connection.rollback()
        check_server(outbox, told)
    for table in (outbox.tables.outbox, outbox.tables.parked):
        if not await outbox.is_there(connection, table):
            raise SchemaMissing(f"{outbox.place} has no table {table.fullname}, or it lacks columns", remedy=APPLY)


def check_server(outbox: Outbox, told: object) -> None:
    """Raise ConfigurationError for what makes it no outbox, though every statement would work."""
    if outbox.name == "mssql" and not told:
        raise ConfigurationError(
            f"{outbox.place} lets readers wait for writers, and writers for readers: READ_COMMITTED_SNAPSHOT is off",
            remedy="ALTER DATABASE ... SET READ_COMMITTED_SNAPSHOT ON",
        )
    if outbox.name == "oracle" and told != "AL32UTF8":
        raise ConfigurationError(
            f"{outbox.place} has the character set {told}, which cannot keep every text",
            remedy="use a database with AL32UTF8",
        )
