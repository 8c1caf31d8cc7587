"""Age takes nothing away: what waits is published however long it waited, what is parked stays parked (C7, C8)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from fencepost.errors import Unavailable
from fencepost.events import CircuitOpened
from fencepost.relay.lane import LaneOptions
from fencepost.sql.source import SourceStatements, source_statements
from fencepost.sql.tables import State, tables
from fencepost.testing.relaying import relayed
from tests.databases.places import LANE, NOON, Place, row

OPTIONS = LaneOptions(batch=4, poll_s=0.02, retry_base_s=0.005, retry_cap_s=0.01, max_attempts=2)
TEN_YEARS = timedelta(days=3_652)


async def test_c7_c8_ten_years_and_an_outage_later_everything_is_there(place: Place) -> None:
    old = NOON - TEN_YEARS
    waiting = place.add(
        *(row(key=f"k{n}", occurred_at=old) for n in range(10)),
        row(key="sent once", occurred_at=old, state=int(State.SENDING)),
        row(key="delayed", occurred_at=old, available_at=old, state=int(State.DELAYED)),
        row(key="tried", occurred_at=old, attempts=1),
    )
    bad = place.add(row(key="bad", topic="bad", occurred_at=old))
    session = await place.source.connect()
    await session.park([(m, "no") for m in await session.pending(LANE, 100) if m.topic == "bad"])
    await session.close()
    async with relayed(place.source, LANE, OPTIONS) as relay:
        relay.server.gate.fail_next(50, Unavailable("the broker is down"), call="publish")
        await relay.until(lambda: len(relay.told(CircuitOpened)) >= 25)
        assert await _waiting(place) == {id_ for _, id_ in waiting}
        await relay.until(lambda: len(relay.ids("orders")) == len(waiting))
        await asyncio.sleep(5 * OPTIONS.poll_s)
    assert set(relay.ids("orders")) == {id_ for _, id_ in waiting}
    assert await _waiting(place) == set()
    assert place.ask(f"SELECT count(*) FROM {place.options.prefix}parked") == [(1,)]
    assert (await place.source.backlog()).parked == len(bad)


async def _waiting(place: Place) -> set[str]:
    return {str(id_) for (id_,) in place.ask(f"SELECT id FROM {place.outbox}")}


async def test_c7_whatever_deletes_names_position_and_id(place: Place) -> None:
    """There is no other statement of the relay's that could take a row away."""
    from sqlalchemy.dialects import mysql, postgresql, sqlite

    dialects = {
        "mysql": mysql.dialect(paramstyle="qmark"),
        "postgresql": postgresql.dialect(),  # type: ignore[no-untyped-call]
        "sqlite": sqlite.dialect(),
    }
    statements = source_statements(tables(), dialects[place.name])
    deleting = {
        name: text
        for name in SourceStatements.__dataclass_fields__
        if "DELETE" in (text := getattr(statements, name)) or "TRUNCATE" in text
    }
    assert set(deleting) <= {"settle", "settle_between", "remove"}
    for text in deleting.values():
        assert "fencepost_outbox" in text
        assert "fencepost_parked" not in text
        assert ".seq" in text
        assert ".id" in text
