"""Tables that somebody has changed: a relay says at its start what it would miss, `schema apply` adds what it can."""

from __future__ import annotations

import pytest

from fencepost.errors import FixError, SchemaMissing
from tests.databases.places import LANE, Place, row


async def refused(place: Place, *names: str) -> None:
    with pytest.raises(FixError) as caught:
        await place.source.connect()
    assert all(name in str(caught.value) for name in names), str(caught.value)


async def test_an_index_that_is_gone_is_told_and_made_again(place: Place) -> None:
    name = f"{place.outbox}_due"
    place.ask(f"DROP INDEX {name} ON {place.outbox}" if place.name == "mysql" else f"DROP INDEX {name}")
    await refused(place, place.outbox)
    assert list(await place.schema.missing()) == [name]
    assert list(await place.schema.apply()) == [name]
    await (await place.source.connect()).close()


async def test_a_column_that_is_gone_is_told_and_made_again(place: Place) -> None:
    place.ask(f"ALTER TABLE {place.outbox} DROP COLUMN headers")
    await refused(place, f"{place.outbox}.headers", "fencepost schema apply")
    assert list(await place.schema.apply()) == [f"{place.outbox}.headers"]
    place.add(row())
    session = await place.source.connect()
    assert len(await session.pending(LANE, 10)) == 1
    await session.close()


async def test_a_column_that_rows_must_have_is_not_made_up(place: Place) -> None:
    table = f"{place.options.prefix}parked"
    place.ask(f"ALTER TABLE {table} DROP COLUMN reason")
    with pytest.raises(SchemaMissing, match=rf"{table}\.reason"):
        await place.source.connect()
    with pytest.raises(FixError, match="have no value"):
        await place.schema.apply()
    assert list(await place.schema.missing()) == [f"{table}.reason"]
