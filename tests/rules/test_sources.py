"""The rules of sources, for every database of this project."""

import pytest

from fencepost.testing.sources import SourceRules


class TestMemory(SourceRules):
    database = "memory"


class TestSqlite(SourceRules):
    database = "sqlite"


class TestPostgresql(SourceRules):
    database = "postgresql"

    @pytest.fixture
    def database_url(self, rules_database: str) -> str:
        return rules_database
