"""What the consumer's database may lose of that which it has committed, a line for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fencepost.sql.link import Wire
from fencepost.sql.other import OTHERS, compiled_not_run
from fencepost.sql.tables import MARIADB

_POSTGRESQL = (
    "SELECT current_setting('fsync') = 'off', current_setting('synchronous_standby_names') = '',"
    " (SELECT count(*) FROM pg_stat_replication)"
)
_MARIADB = "SELECT @@innodb_flush_log_at_trx_commit"
_LOST = "messages that are settled in the outbox may be lost"


async def advice(wire: Wire, dialect: str) -> list[str]:
    """How the database would keep more; nothing where it is well set up, or where that cannot be asked."""
    if dialect in OTHERS:
        return [compiled_not_run(dialect)]
    if dialect == "postgresql":
        careless, alone, standbys = tuple(await _row(wire, _POSTGRESQL))
        return list(_of_postgresql(careless, alone, standbys))
    if dialect in MARIADB and (flush := (await _row(wire, _MARIADB))[0]) != 1:
        text = f"the inbox's server writes its log once a second (innodb_flush_log_at_trx_commit = {flush}): when it"
        return [f"{text} falls, {_LOST} (set it to 1)"]
    return []


async def _row(wire: Wire, text: str) -> Sequence[Any]:
    return tuple((await wire.connection.exec_driver_sql(text)).one())


def _of_postgresql(careless: bool, alone: bool, standbys: int) -> Iterator[str]:
    if careless:
        yield f"the inbox's server does not wait for its disk (fsync = off): when it falls, {_LOST} (set fsync = on)"
    if standbys and alone:
        yield (
            f"{standbys} standbys of the inbox's server follow asynchronously: after a fail-over {_LOST}"
            " (set synchronous_standby_names)"
        )
