"""Rules of the schema."""

from __future__ import annotations

import pytest

from fencepost.errors import SchemaMissing
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace


class SchemaRules(OnDatabase):
    """The tables: created when they are missing, never twice, and missed by name."""

    async def test_applying_a_schema_twice_is_harmless(self, place: OutboxPlace) -> None:
        await place.fill(1)
        assert list(await place.schema.apply()) == []
        assert len(await (await place.session()).pending(WHOLE, 10)) == 1

    async def test_missing_tables_are_named_and_then_created(self, place: OutboxPlace) -> None:
        other = place.beside()
        if not other.schema.statements():
            pytest.skip(f"{place.database} has no tables: none can be missing")
        missing = list(await other.schema.missing())
        assert missing
        assert sorted(await other.schema.apply()) == sorted(missing)
        assert list(await other.schema.missing()) == []
        await other.close()

    async def test_connecting_without_tables_says_that_they_are_missing(self, place: OutboxPlace) -> None:
        other = place.beside()
        if not other.schema.statements():
            pytest.skip(f"{place.database} has no tables: none can be missing")
        with pytest.raises(SchemaMissing):
            await other.session()
        await other.close()
