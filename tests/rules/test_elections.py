"""The rules of lease stores, for every one of this project."""

import pytest

from fencepost.testing.elections import ElectionRules


class TestMemory(ElectionRules):
    election = "memory"


class TestSqlite(ElectionRules):
    election = "sqlite"


class TestPostgresql(ElectionRules):
    election = "postgresql"

    @pytest.fixture
    def election_url(self, rules_database: str) -> str:
        return rules_database
