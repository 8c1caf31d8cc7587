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


class TestMariadb(ElectionRules):
    election = "mariadb"

    @pytest.fixture
    def election_url(self, rules_mariadb: str) -> str:
        return rules_mariadb


class TestRedis(ElectionRules):
    election = "redis"

    @pytest.fixture
    def election_url(self, redis_url: str) -> str:
        return redis_url


class TestDynamodb(ElectionRules):
    election = "dynamodb"

    @pytest.fixture
    def election_url(self, dynamodb_url: str) -> str:
        return dynamodb_url


class TestMongodb(ElectionRules):
    election = "mongodb"

    @pytest.fixture
    def election_url(self, secantusdb_url: str) -> str:
        return secantusdb_url
