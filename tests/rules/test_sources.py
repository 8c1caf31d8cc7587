"""The rules of sources, for every database of this project."""

import pytest

from fencepost.testing.places import OutboxPlace
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


class TestMariadb(SourceRules):
    database = "mariadb"

    @pytest.fixture
    def database_url(self, rules_mariadb: str) -> str:
        return rules_mariadb


class TestRedis(SourceRules):
    database = "redis"

    @pytest.fixture
    def database_url(self, redis_url: str) -> str:
        return redis_url


class TestDynamodb(SourceRules):
    database = "dynamodb"

    @pytest.fixture
    def database_url(self, dynamodb_url: str) -> str:
        return f"{dynamodb_url}&buckets=4"


class TestMongodb(SourceRules):
    database = "mongodb"

    @pytest.mark.long
    async def test_messages_of_one_second_keep_their_order(self, place: OutboxPlace) -> None:
        """A thousand messages: what stands in for MongoDB is slow."""
        await super().test_messages_of_one_second_keep_their_order(place)

    @pytest.fixture
    def database_url(self, secantusdb_url: str) -> str:
        return secantusdb_url


class TestMongodbEmbedded(SourceRules):
    database = "mongodb-embedded"

    @pytest.fixture
    def database_url(self, mongo_java_server_url: str) -> str:
        return embedded(mongo_java_server_url)


@pytest.mark.long
class TestMongodbEmbeddedBesideTransactions(SourceRules):
    database = "mongodb-embedded"

    @pytest.fixture
    def database_url(self, secantusdb_url: str) -> str:
        return embedded(secantusdb_url)


def embedded(url: str) -> str:
    """The same MongoDB for messages inside the documents of one collection."""
    return f"mongodb-embedded{url.removeprefix('mongodb')}{'&' if '?' in url else '?'}collections=things"
