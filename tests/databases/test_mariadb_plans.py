"""How MariaDB finds the rows: through an index, however many there are, and whatever it believes about the table."""

from __future__ import annotations

import json
import resource
from dataclasses import replace

import pytest

from fencepost.databases.mariadb import MariadbSession
from fencepost.databases.mariadb.connection import Connection
from fencepost.ports import Lane
from fencepost.sql.source import LOWEST
from tests.databases.places import LANE, Connect, MariadbPlace

SHORT, LONG = 200_000, 5_000_000
IN_THE_MIDDLE = 100_000
NOBODY = "00000000-0000-0000-0000-000000000000"
ONE = json.dumps([[IN_THE_MIDDLE, NOBODY]])

# The arguments, and how many rows (of tables or indexes) the server may look at.
STATEMENTS: dict[str, tuple[tuple[object, ...], int]] = {
    "pending": ((LOWEST, 2000), 4100),
    "pending_in_slots": ((LOWEST, 0, 127, 1000), 4200),
    "below": ((IN_THE_MIDDLE, 1000), 2200),
    "below_in_slots": ((IN_THE_MIDDLE, 0, 127, 500), 2200),
    "settle": ((ONE,), 60),
    "held": ((json.dumps([[1000, 1999], [IN_THE_MIDDLE, IN_THE_MIDDLE + 999]]),), 4200),
    "held_at": ((json.dumps([1000, IN_THE_MIDDLE]),), 60),
    "in_doubt": ((ONE, 1), 60),
    "failed": (("no", IN_THE_MIDDLE, NOBODY), 60),
    "copy_to_parked": (("no", IN_THE_MIDDLE, NOBODY), 60),
    "remove": ((IN_THE_MIDDLE, NOBODY), 60),
    "due": ((1000,), 60),
    "release_due": ((json.dumps([IN_THE_MIDDLE]),), 60),
    "next_due": ((), 60),
}


def fill(place: MariadbPlace, rows: int, state: int = 0) -> None:
    """After statistics were taken of the empty table, and are not taken again."""
    place.ask(f"ALTER TABLE {place.outbox} STATS_AUTO_RECALC = 0")
    place.ask(f"ANALYZE TABLE {place.outbox}")
    available_at = "'2100-01-01'" if state else "NULL"
    for first in range(1, rows + 1, SHORT):
        place.ask(
            f"INSERT INTO {place.outbox}"
            " (id, topic, `key`, version, type, slot, payload, content_type, occurred_at, state, available_at)"
            f" SELECT UUID(), 't', CONCAT('k', seq), 1, 'x', seq %% 256, REPEAT('x', 200), 'a/b', UTC_TIMESTAMP(6),"
            f" {state}, {available_at} FROM seq_{first}_to_{min(first + SHORT - 1, rows)} WHERE %s",
            1,
        )


async def looked_at(connection: Connection) -> int:
    rows = await connection.rows("SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(value) for _, value in rows)


async def reads_of(session: MariadbSession, name: str, arguments: tuple[object, ...]) -> int:
    connection = session._writer.connection
    text = getattr(session._statements, name)
    await connection.prepare(text)
    overhead = await looked_at(connection)
    overhead = await looked_at(connection) - overhead
    before = await looked_at(connection)
    await connection.say("BEGIN")
    await (connection.rows(text, *arguments) if name in READS else connection.change(text, *arguments))
    after = await looked_at(connection)
    await connection.say("ROLLBACK")
    return after - before - overhead


READS = {"pending", "pending_in_slots", "below", "below_in_slots", "held", "held_at", "due", "next_due"}


async def assert_quick(place: MariadbPlace, connect: Connect) -> None:
    """Every statement of a relay, and the rounds of a reader that drains some of it."""
    session = await connect(MariadbPlace(replace(place.options, timeout_s=60.0)))
    for name, (arguments, most) in STATEMENTS.items():
        assert await reads_of(session, name, arguments) <= most, name
    for lane in (LANE, Lane("orders", 1, 128, 255)):
        rows = await session.pending(lane, 2000)
        assert len(rows) == 2000
        assert await session.settle([(m.position, m.id) for m in rows]) == 2000
    again = await session.pending(LANE, 2000)
    assert int(again[0].position) > 2000


async def test_statistics_of_an_empty_table_do_not_matter(mariadb: MariadbPlace, connect: Connect) -> None:
    """D7, D8: each statement looks at a few rows, by position or by the time when they are due."""
    fill(mariadb, SHORT)
    await assert_quick(mariadb, connect)


async def test_a_scan_would_be_noticed(mariadb: MariadbPlace, connect: Connect) -> None:
    """So that the rule above is about something."""
    fill(mariadb, 20_000)
    session = await connect(mariadb)
    connection = session._writer.connection
    before = await looked_at(connection)
    await connection.rows(f"SELECT seq FROM {mariadb.outbox} WHERE attempts > 0")
    assert await looked_at(connection) - before > 10_000


@pytest.mark.long
@pytest.mark.parametrize("state", [0, 2], ids=["pending", "delayed"])
async def test_five_million_rows(mariadb: MariadbPlace, connect: Connect, state: int) -> None:
    """D7: in constant memory, through an index."""
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fill(mariadb, LONG, state)
    if state == 0:
        await assert_quick(mariadb, connect)
    else:
        session = await connect(MariadbPlace(replace(mariadb.options, timeout_s=60.0)))
        assert await session.pending(LANE, 100) == []
        for name in ("pending", "below", "due", "next_due", "settle", "remove"):
            arguments, most = STATEMENTS[name]
            assert await reads_of(session, name, arguments) <= most, name
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 50_000
