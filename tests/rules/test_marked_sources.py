"""The rules of sources whose settled rows stay, for every database of this project that has them."""

import pytest

from fencepost.testing.sources import MarkedSourceRules


class TestSqlite(MarkedSourceRules):
    database = "sqlite"


class TestPostgresql(MarkedSourceRules):
    database = "postgresql"

    @pytest.fixture
    def database_url(self, rules_database: str) -> str:
        return rules_database


class TestMariadb(MarkedSourceRules):
    database = "mariadb"

    @pytest.fixture
    def database_url(self, mariadb_url: str) -> str:
        return mariadb_url
